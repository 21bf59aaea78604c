// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"weir/internal/nearest"
	"weir/internal/yamlfile"
	"weir/record"
)

// Bounds of one cell: they reject typing errors that no machine could carry.
const (
	maxNodes    = 200
	maxLinks    = 400
	maxDelay    = time.Minute
	maxDuration = 24 * time.Hour
)

// tryDelay is the range of delays and jitters.
var tryDelay = fmt.Sprintf("write a time from 0 to %s, such as 5ms", maxDelay)

var nodeName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,30}$`)

// builder makes a cell of a decoded file and records mistakes.
type builder struct {
	file     *file
	cell     *Cell
	network  *network
	problems *yamlfile.Problems
}

// build returns the cell without its routes, and the network that computes them. Both are valid
// only without problems.
func build(f *file, labels record.Labels, p *yamlfile.Problems) (*Cell, *network) {
	b := &builder{file: f, cell: &Cell{Labels: labels}, problems: p}
	b.nodes(f.Hosts, false)
	b.nodes(f.Routers, true)
	b.links()
	if p.Len() > 0 {
		return b.cell, nil
	}
	b.ioam()
	b.network = newNetwork(b.cell)
	for i, r := range f.Routes {
		b.route(r, fmt.Sprintf("routes[%d]", i))
	}
	if p.Len() == 0 {
		b.phases()
	}
	if p.Len() == 0 {
		b.queues()
		b.limits()
		b.ioamEnds()
		b.fewTransfers()
	}
	return b.cell, b.network
}

func (b *builder) complain(at yamlfile.Place, try, format string, args ...any) {
	b.problems.Add(at, try, format, args...)
}

func (b *builder) nodes(files []nodeFile, router bool) {
	kind := "hosts"
	if router {
		kind = "routers"
	}
	for i, n := range files {
		path := fmt.Sprintf("%s[%d]", kind, i)
		at := n.At("name")
		switch {
		case !nodeName.MatchString(n.Name):
			b.complain(at, "", "%s: %q is no name: use letters, digits, - and _, a letter first, 31 at most", path, n.Name)
		case slices.ContainsFunc(b.cell.Nodes, func(have Node) bool { return have.Name == n.Name }):
			b.complain(at, "give each host and router a name of its own", "%s: there is a host or router %q already", path, n.Name)
		case len(b.cell.Nodes) == maxNodes:
			b.complain(at, fmt.Sprintf("describe at most %d", maxNodes), "%s: more than %d hosts and routers", path, maxNodes)
		}
		if n.Forwarding != "" && !router {
			b.complain(n.At("forwarding"), "declare it under routers", "%s.forwarding: %s is a host, which forwards nothing", path, n.Name)
		}
		node := Node{Name: n.Name, Router: router, Sysctls: b.sysctls(n, path), Offloads: b.offloads(n, path)}
		if n.Forwarding != "kernel" {
			node.Forwarding = n.Forwarding
		}
		b.cell.Nodes = append(b.cell.Nodes, node)
	}
	if !router && len(files) == 0 {
		b.complain(b.file.At("hosts"), "", "hosts: a scenario needs at least one host")
	}
}

func (b *builder) sysctls(n nodeFile, path string) map[string]string {
	out := map[string]string{}
	for _, s := range n.Sysctls {
		key := strings.ReplaceAll(s.Key.Value, "/", ".")
		if !strings.HasPrefix(key, "net.") || strings.Contains(key, "..") {
			b.complain(s.Key.Place, "write a setting of the network namespace, such as net.ipv4.tcp_rmem", "%s.sysctls: %q does not begin with \"net.\": other settings belong to the whole machine", path, s.Key.Value)
		}
		out[s.Key.Value] = s.Value
	}
	return out
}

func (b *builder) offloads(n nodeFile, path string) map[string]bool {
	known := []string{"tso", "gso", "gro", "tx", "rx"}
	out := map[string]bool{}
	for _, o := range n.Offloads {
		if !slices.Contains(known, o.Key.Value) {
			b.complain(o.Key.Place, "", "%s.offloads: unknown offload %q%s", path, o.Key.Value, listOrHint(o.Key.Value, known))
		}
		out[o.Key.Value] = o.Value
	}
	return out
}

// node looks a name up and reports an unknown one.
func (b *builder) node(at yamlfile.Place, path, name string) bool {
	names := make([]string, len(b.cell.Nodes))
	for i, n := range b.cell.Nodes {
		if n.Name == name {
			return true
		}
		names[i] = n.Name
	}
	b.complain(at, "", "%s: there is no host or router %q%s", path, name, nearest.Hint(name, names))
	return false
}
