// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"net/netip"
	"slices"

	"weir/internal/yamlfile"
	"weir/modules/ioam"
)

// IOAM makes a host or a router a node of an IOAM domain. Its interfaces are the links of the node,
// by name.
type IOAM struct {
	Mode    string // Passive, Registered or Full
	Collect bool   // collect and decode options that end here while the run lasts
	Setup   *ioam.Setup
}

// Modes of a node, for comparisons: inactive, active without encapsulation, and active.
const (
	Passive    = "passive"
	Registered = "registered"
	Full       = "full"
)

// On reports whether the node's programs are attached. It may be called on nil.
func (i *IOAM) On() bool { return i != nil && i.Mode != Passive }

type ioamFile struct {
	yamlfile.Fields `yaml:"-"`
	Mode            string `yaml:"mode" enum:"passive,registered,full" doc:"For comparisons: passive is no node at all, registered one that puts nothing into packets, full all that is said here; full if left out."`
	ioam.NodeKeys
	Collect     *bool              `yaml:"collect" doc:"Collect and decode options that end here during the run, which takes CPU time; true if left out."`
	Encapsulate []*encapsulateFile `yaml:"encapsulate" doc:"Options added to packets that leave by a link with the role egress."`
}

type encapsulateFile struct {
	yamlfile.Fields `yaml:"-"`
	To              string `yaml:"to" doc:"Destination node of the packets, all of its addresses; all IPv6 if left out."`
	ioam.EncapsulationKeys
	Copies      *int `yaml:"copies" doc:"How many times the options are put in; once if left out."`
	Consecutive bool `yaml:"consecutive" doc:"Each copy is in the namespace with the next number."`
}

const maxCopies = 16

// ioam reads the nodes of a domain, once all links are known.
func (b *builder) ioam() {
	for _, kind := range []struct {
		name  string
		files []nodeFile
	}{{"hosts", b.file.Hosts}, {"routers", b.file.Routers}} {
		for i, f := range kind.files {
			if f.IOAM != nil && !f.IOAM.Flawed() {
				b.ioamNode(f, fmt.Sprintf("%s[%d].", kind.name, i))
			}
		}
	}
}

func (b *builder) ioamNode(f nodeFile, path string) {
	node := &b.cell.Nodes[slices.IndexFunc(b.cell.Nodes, func(n Node) bool { return n.Name == f.Name })]
	if node.Forwarding != "" {
		b.complain(f.IOAM.Self, "leave forwarding out", "%sioam: by %s packets pass the node's programs by", path, node.Forwarding)
	}
	sound := true
	complain := func(at yamlfile.Place, try, format string, args ...any) {
		sound = false
		b.complain(at, try, "%s%s", path, fmt.Sprintf(format, args...))
	}
	out := &IOAM{Mode: f.IOAM.Mode, Collect: f.IOAM.Collect == nil || *f.IOAM.Collect}
	if out.Mode == "" {
		out.Mode = Full
	}
	out.Setup = ioam.NewSetup(f.IOAM.Fields, &f.IOAM.NodeKeys, nodeName.MatchString, complain)
	if sound {
		b.ioamIDs(f, path, out.Setup)
	}
	b.ioamLinks(f, path)
	for i, e := range f.IOAM.Encapsulate {
		if sound && e != nil && !e.Flawed() {
			b.encapsulate(out, e, fmt.Sprintf("%sioam.encapsulate[%d]", path, i))
		}
	}
	node.IOAM = out
}

// ioamIDs rejects the ids of an earlier node: figures of the two could not be separated.
func (b *builder) ioamIDs(f nodeFile, path string, setup *ioam.Setup) {
	short, wide := setup.IDs()
	for _, n := range b.cell.Nodes {
		if n.IOAM == nil {
			continue
		}
		otherShort, otherWide := n.IOAM.Setup.IDs()
		for _, id := range []struct {
			key string
			is  uint64
		}{{"node", short}, {"wide", wide}} {
			if id.is == otherShort || id.is == otherWide {
				b.complain(f.IOAM.At(id.key), "give each node of the scenario an id of its own", "%sioam.%s: %d is the id of %s too: traces could not distinguish them", path, id.key, id.is, n.Name)
				break
			}
		}
	}
}

// ioamLinks checks that interfaces are links of the node.
func (b *builder) ioamLinks(f nodeFile, path string) {
	var own []string
	for _, l := range b.cell.Links {
		if l.A == f.Name || l.B == f.Name {
			own = append(own, l.Name)
		}
	}
	for _, i := range f.IOAM.Interfaces {
		if !slices.Contains(own, i.Key.Value) {
			b.complain(i.Key.Place, "", "%sioam.interfaces: no link %q ends at %s%s", path, i.Key.Value, f.Name, listOrHint(i.Key.Value, own))
		}
	}
	if len(f.IOAM.Interfaces) == 0 {
		b.complain(f.IOAM.Self, "name the node's links, as in interfaces: {LINK: {id: 1, roles: [ingress, egress]}}", "%sioam: a node without interfaces does nothing", path)
	}
}

// encapsulate adds one encapsulation. A node in mode registered is checked as if it were on.
func (b *builder) encapsulate(out *IOAM, e *encapsulateFile, path string) {
	copies := b.count(e.Fields, path, "copies", e.Copies, 1, maxCopies)
	to := []netip.Prefix{netip.MustParsePrefix("::/0")}
	if e.To != "" && b.node(e.At("to"), path+".to", e.To) {
		to = b.addressesOf(e.To)
	}
	setup := out.Setup
	if out.Mode != Full {
		another := *setup
		setup = &another
	}
	if err := setup.Encapsulate(path, e.EncapsulationKeys, copies, e.Consecutive, to...); err != nil {
		b.complain(e.Self, "", "%s: %v", path, err)
	}
}

// addressesOf returns a node's IPv6 addresses on all its links.
func (b *builder) addressesOf(node string) (all []netip.Prefix) {
	for _, l := range b.cell.Links {
		for end, address := range map[string]netip.Prefix{l.A: l.AddressA6, l.B: l.AddressB6} {
			if end == node {
				all = append(all, netip.PrefixFrom(address.Addr(), address.Addr().BitLen()))
			}
		}
	}
	return all
}

// domain lists the subjects of a metric of nodes.
func (c *Cell) domain(metric string) (all []string) {
	for _, n := range c.Nodes {
		if n.IOAM != nil {
			all = append(all, n.Name)
		}
	}
	if metric == IOAMLost && len(all) > 0 {
		return []string{Domain}
	}
	return all
}
