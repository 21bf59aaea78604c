// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"slices"
	"strings"

	"weir/lab/traffic"
	"weir/modules/ioam"
)

// Protocols of IP.
const (
	protocolTCP = 6
	protocolUDP = 17
)

// ioamEnds rejects flows that IOAM blocks completely: every packet gets options, and a node at the
// domain's border drops them, or the frame tester does not parse them. If only some packets are
// lost, the run decides.
func (b *builder) ioamEnds() {
	if !slices.ContainsFunc(b.cell.Nodes, func(n Node) bool { return n.IOAM.On() }) {
		return
	}
	for _, phase := range b.cell.Phases {
		for _, f := range phase.Flows {
			if f.Family != 6 || f.Kind == traffic.Program {
				continue
			}
			t := journey{b: b, what: fmt.Sprintf("flow %q", f.Name), protocol: protocolTCP, dscp: f.DSCP}
			if f.Kind == traffic.Datagram {
				t.protocol = protocolUDP
				t.walk(f.From, f.To)
				continue
			}
			if t.walk(f.From, f.To) {
				t.dscp = unknownDSCP // responses have their own DSCP
				t.walk(f.To, f.From)
			}
		}
		for _, s := range phase.Streams {
			if s.Family == 6 {
				t := journey{b: b, what: fmt.Sprintf("stream %q", s.Name), protocol: protocolUDP, dscp: s.DSCP, frames: true}
				t.walk(s.From, s.To)
			}
		}
		if p := phase.Procedure; p != nil && p.Family == 6 {
			t := journey{b: b, what: fmt.Sprintf("procedure %q", p.Name), protocol: protocolUDP, frames: true}
			t.walk(p.From, p.To)
		}
	}
}

const unknownDSCP = 64

// journey is the path of packets through the nodes.
type journey struct {
	b        *builder
	what     string
	protocol uint8
	dscp     uint8
	frames   bool     // of the frame tester, below the programs of its hosts' nodes
	carried  []uint16 // namespaces of the options on every packet
	from     string   // node that added them
}

// walk follows the path; it reports whether packets can arrive.
func (j *journey) walk(from, to string) bool {
	n, here, by := j.b.network, from, ""
	j.carried, j.from = nil, ""
	hops, _ := n.path(n.index[from], n.index[to])
	for _, h := range hops {
		via := n.links[h.link].Name
		if (!j.frames || here != from) && (!j.arrive(here, by, to) || !j.leave(here, by, via, to)) {
			return false
		}
		here, by = n.nodes[n.other(h.link, n.index[here])].Name, via
		if j.frames && here == to && len(j.carried) > 0 {
			last := n.nodes[n.other(h.link, n.index[to])].Name
			j.refuse(fmt.Sprintf("end them on the way, at %s at the latest: %s", last, j.remove()), "%s gets them, where the frame tester does not look behind options", to)
			return false
		}
	}
	return j.frames || j.arrive(to, by, to)
}

// arrive applies a node's actions to packets that enter by a link.
func (j *journey) arrive(name, by, to string) bool {
	setup := j.setup(name)
	ingress, _, is := setup.Roles(by)
	if !is || len(j.carried) == 0 {
		return true
	}
	if !ingress {
		ends := "if they end there"
		if name == to {
			ends = "since it is the last node"
		}
		j.refuse(fmt.Sprintf("give %q of %s the role ingress, and %s, %s", by, name, j.remove(), ends), "%s drops them where they come in by %q, a border of the domain", name, by)
		return false
	}
	j.carried = slices.DeleteFunc(j.carried, setup.Ends)
	return true
}

// leave applies a node's actions to packets that leave by a link: forwarded ones that entered by
// another, or its own.
func (j *journey) leave(name, by, via, to string) bool {
	setup := j.setup(name)
	_, egress, is := setup.Roles(via)
	switch {
	case is && egress:
		j.put(name, to)
	case is && len(j.carried) > 0:
		try := fmt.Sprintf("end them at %s: %s; or give %q the role egress, if the domain goes on", name, j.remove(), via)
		if setup.Ends(j.carried[0]) {
			try = fmt.Sprintf("list %q among the interfaces of %s, with the role ingress: options end where they come in", by, name)
		}
		j.refuse(try, "%s drops them where they would leave by %q, a border of the domain", name, via)
		return false
	}
	return true
}

// put adds the options that every packet gets at a node.
func (j *journey) put(name, to string) {
	address, _ := j.b.cell.Address(to, 6)
	if all := j.setup(name).Always(address, j.protocol, j.dscp); len(all) > 0 {
		j.carried, j.from = append(j.carried, all...), name
	}
}

// setup returns a node's IOAM configuration; nil without one.
func (j *journey) setup(name string) *ioam.Setup {
	if node := j.b.cell.Nodes[j.b.network.index[name]].IOAM; node.On() {
		return node.Setup
	}
	return nil
}

// remove names the action that ends the options at a node.
func (j *journey) remove() string {
	words := make([]string, 0, len(j.carried))
	for _, namespace := range j.carried {
		if word := fmt.Sprintf("%d: {remove: true}", namespace); !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	return "namespaces: {" + strings.Join(words, ", ") + "}"
}

// refuse reports a mistake at the node that adds the options.
func (j *journey) refuse(try, format string, args ...any) {
	for kind, files := range map[string][]nodeFile{"hosts": j.b.file.Hosts, "routers": j.b.file.Routers} {
		for i, f := range files {
			if f.Name == j.from {
				j.b.complain(f.IOAM.At("encapsulate"), try, "%s[%d].ioam.encapsulate: every packet of %s gets options, and %s", kind, i, j.what, fmt.Sprintf(format, args...))
			}
		}
	}
}
