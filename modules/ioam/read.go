// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"weir/core/policy"
	"weir/internal/nearest"
	"weir/internal/yamlfile"
	"weir/modules/ioam/codec"
	"weir/modules/ioam/node"
)

// read converts the keys of a file to treatments.
func read(d *policy.Draft) {
	section, _ := d.Section.(*sectionKeys)
	namespaces := map[uint16]node.Namespace{}
	if section != nil && section.IOAM != nil {
		readNode(reading{d, policy.IsDevice}, section.IOAM.Fields, &section.IOAM.NodeKeys, section.IOAM.socketKeys, namespaces)
	}
	for i := range d.Scopes {
		s := &d.Scopes[i]
		keys := s.Keys.(*scopeKeys).IOAM
		if keys == nil {
			continue
		}
		if section == nil || section.IOAM == nil {
			d.Complain(s, key, "the file has no node: add a section ioam with node and interfaces")
			continue
		}
		if s.Selector.Kind == policy.Group {
			d.Complain(s, key, "a group has no packets of its own: give it to its members")
			continue
		}
		if e, err := keys.encapsulation(namespaces); err != nil {
			d.Complain(s, key, "%v", err)
		} else if e.Tunnel.IsValid() && section.IOAM.Address == "" {
			d.Complain(s, key, "tunnel: packets come from the node's address: give ioam.address")
		} else if err := node.CheckCarrier(e, section.IOAM.SocketContext, namespaces); err != nil {
			d.Complain(s, key, "with the context of a socket (ioam.socket_context): %v", err)
		} else {
			d.Treat(s, &node.Treatment{Encapsulation: e})
		}
	}
}

// draft collects mistakes and declarations of the node.
type draft interface {
	ComplainAt(place yamlfile.Place, try, format string, args ...any)
	Declare(name string, at yamlfile.Fields, t policy.Treatment)
}

// reading is a draft with the valid names of interfaces.
type reading struct {
	draft
	isInterface func(name string) bool
}

// within rejects numbers above a number of bits.
func within(d draft, at yamlfile.Place, name string, n uint64, bits int) {
	if n>>bits != 0 {
		d.ComplainAt(at, "", "ioam.%s: %d has more than %d bits", name, n, bits)
	}
}

func readNode(d reading, fields yamlfile.Fields, keys *NodeKeys, sockets socketKeys, namespaces map[uint16]node.Namespace) {
	n := node.Node{ID: uint32(keys.Node), Wide: keys.Wide.or(uint64(keys.Node)), Clock: keys.Timestamps, Postcards: uint32(keys.Postcards.or(1000))}
	identify(d, fields.At("node"), "node", uint64(keys.Node), 24)
	if keys.Wide != nil {
		identify(d, fields.At("wide"), "wide", n.Wide, 56)
	}
	within(d, fields.At("postcards"), "postcards", keys.Postcards.or(0), 32)
	if n.Flows = uint32(keys.Flows.or(0)); keys.Flows != nil && (*keys.Flows < 1 || *keys.Flows > node.MaxFlows) {
		d.ComplainAt(fields.At("flows"), "", "ioam.node.Flows: %d is not 1 to %d", *keys.Flows, node.MaxFlows)
	}
	if n.Clock == "" {
		n.Clock = "posix"
	}
	readFlags(d, fields, keys, &n)
	n.TraceContext, n.SocketContext, n.ContextSchema = keys.TraceContext, sockets.SocketContext, uint32(sockets.ContextSchema.or(0))
	if s := sockets.ContextSchema; s != nil && (*s == 0 || *s >= codec.None24) {
		d.ComplainAt(fields.At("context_schema"), tryID(codec.None24-1), "ioam.context_schema: %#x is no schema", uint64(*s))
	}
	d.Declare("ioam node", fields, &node.Treatment{Node: &n})
	var all interfaces
	for _, e := range keys.Interfaces {
		if i, ok := readInterface(d, e.Key, e.Value); ok {
			all.add(d, i, e.Value)
			d.Declare("ioam interface "+i.Name, e.Value.Fields, &node.Treatment{Interface: &i})
		}
	}
	own, ends := map[uint16]bool{}, false
	for _, e := range keys.Namespaces {
		id, err := strconv.ParseUint(e.Key.Value, 0, 16)
		if err != nil || e.Value == nil {
			d.ComplainAt(e.Key.Place, "", "ioam.namespaces: %q is no namespace: give a number from 0 to 65535, with {} if it has no keys", e.Key.Value)
			continue
		}
		ns := readNamespace(d, uint16(id), e.Value)
		if ns.Loopback && !n.Address.IsValid() {
			d.ComplainAt(e.Value.At("loopback"), "", "ioam.namespaces.%d.loopback: copies come from the node's address: give ioam.address", id)
		}
		if ns.Schema == n.Schema() {
			d.ComplainAt(e.Value.At("schema"), "", "ioam.namespaces.%d.schema: %#x is that of contexts of sockets: give another one, or ioam.context_schema", id, ns.Schema)
		}
		own[ns.ID], namespaces[ns.ID], ends = true, ns, ends || ns.Remove
		d.Declare(fmt.Sprintf("ioam namespace %d", ns.ID), e.Value.Fields, &node.Treatment{Namespace: &ns})
	}
	if n.TraceContext && !ends {
		d.ComplainAt(fields.At("trace_context"), "", "ioam.trace_context: no namespace ends here: give one remove: true")
	}
	if !own[0] { // every node has it (RFC 9197 section 4.3)
		ns := node.Namespace{Data: codec.None32, Wide: codec.None64, Schema: codec.None24}
		namespaces[0] = ns
		d.Declare("ioam namespace 0", fields, &node.Treatment{Namespace: &ns})
	}
}

func readInterface(d reading, name yamlfile.Text, keys *interfaceKeys) (node.Interface, bool) {
	if keys == nil || !d.isInterface(name.Value) {
		d.ComplainAt(name.Place, "", "ioam.interfaces: %q is no device name, or has no keys: write NAME: {id: 1, roles: [ingress, egress]}", name.Value)
		return node.Interface{}, false
	}
	i := node.Interface{Name: name.Value, ID: uint16(keys.ID.or(codec.None16)), Wide: uint32(keys.Wide.or(keys.ID.or(codec.None32))), Reserve: keys.Reserve}
	within(d, keys.At("id"), "interfaces."+i.Name+".id", keys.ID.or(0), 16)
	within(d, keys.At("wide"), "interfaces."+i.Name+".wide", keys.Wide.or(0), 32)
	for _, role := range keys.Roles {
		switch role {
		case "ingress":
			i.Ingress = true
		case "egress":
			i.Egress = true
		default:
			d.ComplainAt(keys.At("roles"), "", "ioam.interfaces.%s.roles: %q is neither ingress nor egress", i.Name, role)
		}
	}
	return i, true
}

func readNamespace(d draft, id uint16, keys *namespaceKeys) node.Namespace {
	ns := node.Namespace{ID: id, Data: uint32(keys.Data.or(codec.None32)), Wide: keys.Wide.or(codec.None64), Schema: uint32(keys.Schema.or(codec.None24)),
		Remove: keys.Remove, Strict: keys.Strict, ProofFile: keys.Proof, Loopback: keys.Loopback}
	path := fmt.Sprintf("namespaces.%d.", id)
	within(d, keys.At("data"), path+"data", keys.Data.or(0), 32)
	within(d, keys.At("schema"), path+"schema", keys.Schema.or(0), 24)
	if ns.State = []byte(keys.State); len(ns.State) > node.MaxState {
		d.ComplainAt(keys.At("state"), "", "ioam.%sstate: it is %d octets long, and %d fit", path, len(ns.State), node.MaxState)
		ns.State = nil
	}
	for len(ns.State)%4 != 0 {
		ns.State = append(ns.State, 0)
	}
	if len(ns.State) == 0 {
		ns.State = nil
	}
	if ns.Strict && (!ns.Remove || ns.ProofFile == "") {
		d.ComplainAt(keys.At("strict"), "", "ioam.%sstrict: it is for where a proof ends: give remove and proof as well", path)
	}
	return ns
}

// fieldNames maps names to fields of a trace.
var fieldNames = map[string]codec.TraceType{
	"node": codec.HopLimitNode, "interfaces": codec.Interfaces, "timestamps": codec.Seconds | codec.Fraction, "delay": codec.TransitDelay,
	"data": codec.NamespaceData, "queue": codec.QueueDepth, "checksum": codec.Checksum, "wide_node": codec.WideHopLimitNode,
	"wide_interfaces": codec.WideInterfaces, "wide_data": codec.WideData, "occupancy": codec.BufferOccupancy, "state": codec.Opaque,
}

// edgeNames maps names to fields of an edge-to-edge option.
var edgeNames = map[string]codec.EdgeType{"sequence": codec.Sequence64, "sequence32": codec.Sequence32, "timestamps": codec.EdgeSeconds | codec.EdgeFraction}

// fieldsOf parses a list of names, or of bits.
func fieldsOf[T codec.TraceType | codec.EdgeType](words []string, names map[string]T, bits T) (all T, err error) {
	var known []string
	for name := range names {
		known = append(known, name)
	}
	slices.Sort(known)
	for _, word := range words {
		field, is := names[word]
		if v, err := strconv.ParseUint(word, 0, 32); !is && err == nil && T(v)&^bits == 0 && v>>24 == 0 {
			field, is = T(v), true
		}
		if !is {
			return 0, fmt.Errorf("there is no field %q%s: there are %s", word, nearest.Hint(word, known), strings.Join(known, ", "))
		}
		all |= field
	}
	return all, nil
}

// definedFields are the bits that an encapsulating node may set.
const definedFields = codec.TraceType(0xfffffe) &^ codec.Undefined

// defaultNodes is the default capacity of a trace in nodes.
const defaultNodes = 4

// options returns the options of the keys.
func (k *optionKeys) options() (all []node.Option, err error) {
	if k.Namespace>>16 != 0 {
		return nil, fmt.Errorf("namespace %d has more than 16 bits", k.Namespace)
	}
	ns, nodes := uint16(k.Namespace), k.Nodes.or(defaultNodes)
	if nodes < 1 || nodes > 127 {
		return nil, fmt.Errorf("nodes: a trace has space for 1 to 127 nodes, not %d", nodes)
	}
	if len(k.Trace) > 0 {
		fields, err := fieldsOf(k.Trace, fieldNames, definedFields)
		if err != nil {
			return nil, fmt.Errorf("trace: %w", err)
		}
		all = append(all, node.Option{Type: codec.PreallocatedTrace, Namespace: ns, Fields: fields, Nodes: int(nodes)})
	}
	if k.Proof {
		all = append(all, node.Option{Type: codec.ProofOfTransit, Namespace: ns})
	}
	if len(k.Export) > 0 {
		fields, err := fieldsOf(k.Export, fieldNames, definedFields&^codec.Checksum)
		if err != nil {
			return nil, fmt.Errorf("export: %w", err)
		}
		all = append(all, node.Option{Type: codec.DirectExport, Namespace: ns, Fields: fields, Extensions: codec.FlowID | codec.ExportSequence})
	}
	if len(k.Edge) > 0 {
		fields, err := fieldsOf(k.Edge, edgeNames, 0)
		if err != nil {
			return nil, fmt.Errorf("edge: %w", err)
		}
		if fields&codec.Sequence64 != 0 && fields&codec.Sequence32 != 0 {
			return nil, fmt.Errorf("edge: give sequence or sequence32, not both")
		}
		all = append(all, node.Option{Type: codec.EdgeToEdge, Namespace: ns, Edge: fields})
	}
	return all, nil
}

// encapsulation checks all keys of a scope.
func (k *EncapsulationKeys) encapsulation(namespaces map[uint16]node.Namespace) (*node.Encapsulation, error) {
	e := &node.Encapsulation{}
	for _, keys := range append([]*optionKeys{&k.optionKeys}, k.Options...) {
		options, err := keys.options()
		if err != nil {
			return nil, err
		}
		e.Options = append(e.Options, options...)
	}
	if len(e.Options) == 0 || len(e.Options) > node.MaxOptions {
		return nil, fmt.Errorf("it has %d options: give 1 to %d by trace, proof, edge and export", len(e.Options), node.MaxOptions)
	}
	for _, o := range e.Options {
		ns, known := namespaces[o.Namespace]
		if !known {
			return nil, fmt.Errorf("the node does not know namespace %d: add it to ioam.namespaces", o.Namespace)
		}
		if o.Type == codec.ProofOfTransit && ns.ProofFile == "" {
			return nil, fmt.Errorf("namespace %d has no proof: make one by weir ioam proof, and name its file in ioam.namespaces", o.Namespace)
		}
	}
	var err error
	if k.Tunnel != "" {
		if e.Tunnel, err = addressOf(k.Tunnel); err != nil {
			return nil, fmt.Errorf("tunnel: %w", err)
		}
	}
	if e.Flags, err = k.flags(e.Options, namespaces); err != nil {
		return nil, err
	}
	if e.Sampling, err = k.sampling(); err != nil {
		return nil, err
	}
	if e.Conditions, err = k.conditions(); err != nil {
		return nil, err
	}
	return e, e.Check(namespaces)
}

func (k *EncapsulationKeys) sampling() (s node.Sampling, err error) {
	given := 0
	for _, is := range []bool{k.Every != "", k.Probability != nil, k.Flows != nil} {
		if is {
			given++
		}
	}
	if given > 1 {
		return s, fmt.Errorf("give one of every, probability and flows")
	}
	for kind, part := range map[string]*float64{node.Chance: k.Probability, node.Flows: k.Flows} {
		if part == nil {
			continue
		}
		if *part < 0 || *part > 1 {
			return s, fmt.Errorf("%g is no share: give 0 to 1", *part)
		}
		return node.Sampling{Kind: kind, Part: *part}, nil
	}
	s = node.Sampling{Kind: node.Every, K: 1, N: 1}
	if k.Every == "" {
		return s, nil
	}
	of, n, fraction := strings.Cut(k.Every, "/")
	if !fraction {
		of, n = "1", k.Every
	}
	first, err1 := strconv.ParseUint(of, 10, 32)
	second, err2 := strconv.ParseUint(n, 10, 32)
	if err1 != nil || err2 != nil || first > second || second == 0 {
		return s, fmt.Errorf("every: %q is no fraction: write 100 for one of 100 packets, 3/10 for three of ten", k.Every)
	}
	s.K, s.N = uint32(first), uint32(second)
	return s, nil
}

// hopOptions is the default maximum number of Hop-by-Hop options in Linux
// (net.ipv6.max_hbh_opts_number).
const hopOptions = 8

func warn(p *policy.Policy) (warnings []string) {
	egress := slices.ContainsFunc(p.Host, func(i policy.Item) bool {
		t, _ := i.Treatment.(*node.Treatment)
		return t != nil && t.Interface != nil && t.Interface.Egress
	})
	if share := node.ConfigOf(p.Host).Node.FlagShare; share > 0 && share <= minShare {
		warnings = append(warnings, fmt.Sprintf("ioam.flag_share: packets with flags, and copies sent back, may take 1/%d of an interface; RFC 9322 recommends more than %d parts", share, minShare))
	}
	if carriesNothing(p) {
		warnings = append(warnings, "ioam.socket_context: no scope has a trace that could carry the context of a socket")
	}
	for _, s := range p.Scopes {
		e := node.EncapsulationOf(s)
		if e == nil {
			continue
		}
		if n := len(e.Options); n > hopOptions {
			warnings = append(warnings, fmt.Sprintf("%s: scope %s: nodes drop packets with more than net.ipv6.max_hbh_opts_number options (default %d), and it has %d",
				p.At(s.Name, key), s.Name, hopOptions, n))
		}
		if !egress {
			warnings = append(warnings, fmt.Sprintf("%s: scope %s: no interface has the role egress, so no packet gets its options", p.At(s.Name, key), s.Name))
		}
	}
	return warnings
}

// carriesNothing reports whether contexts of sockets are enabled without any trace for them.
func carriesNothing(p *policy.Policy) bool {
	return node.ConfigOf(p.Host).Node.SocketContext && !slices.ContainsFunc(p.Scopes, func(s policy.Scope) bool {
		e := node.EncapsulationOf(s)
		return e != nil && e.Carries()
	})
}
