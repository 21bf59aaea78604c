// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"weir/core/policy"
	"weir/modules/ioam/codec"
	"weir/modules/ioam/proof"
)

// Name is the name of the module, of its section, and of its key in scopes.
const Name = "ioam"

// Treatment is the treatment of a scope or an object of the node: exactly one field is set.
type Treatment struct {
	Node          *Node          `json:"node,omitempty"`
	Interface     *Interface     `json:"interface,omitempty"`
	Namespace     *Namespace     `json:"namespace,omitempty"`
	Encapsulation *Encapsulation `json:"encapsulation,omitempty"`
}

// Summary describes the treatment in one line.
func (t *Treatment) Summary() string {
	switch {
	case t.Node != nil:
		return t.Node.Summary()
	case t.Interface != nil:
		return t.Interface.Summary()
	case t.Namespace != nil:
		return t.Namespace.Summary()
	case t.Encapsulation != nil:
		return t.Encapsulation.Summary()
	}
	return ""
}

// Node describes this host in its domain.
type Node struct {
	ID        uint32 `json:"id"`              // 24 bits
	Wide      uint64 `json:"wide"`            // 56 bits
	Clock     string `json:"clock"`           // posix, ptp or ntp
	Postcards uint32 `json:"postcards"`       // maximum per second and CPU
	Flows     uint32 `json:"flows,omitempty"` // stored at each end; 0 depends on the CPUs
	// Address is the end of tunnels and the source of copies. FlagShare is the N of the 1/N of the
	// slowest interface for copies and flagged packets.
	Address   netip.Addr `json:"address,omitzero"`
	FlagShare uint32     `json:"flag_share,omitempty"`
	// TraceContext adds the W3C trace context of HTTP requests to records.
	TraceContext bool `json:"trace_context,omitempty"`
	// SocketContext enables trace contexts of sockets, which traces carry as opaque state with this
	// schema.
	SocketContext bool   `json:"socket_context,omitempty"`
	ContextSchema uint32 `json:"context_schema,omitempty"` // 24 bits
}

func (n *Node) Summary() string { return fmt.Sprintf("node %d", n.ID) }

// Interface is a device and its allowed directions.
type Interface struct {
	Name    string `json:"name"`
	ID      uint16 `json:"id"`
	Wide    uint32 `json:"wide"`
	Ingress bool   `json:"ingress"`
	Egress  bool   `json:"egress"`
	Reserve bool   `json:"reserve"` // lower the IPv6 MTU by the size of options
}

func (i *Interface) Summary() string { return fmt.Sprintf("id %d, %s", i.ID, i.Roles()) }

func (i *Interface) Roles() string {
	switch {
	case i.Ingress && i.Egress:
		return "ingress and egress"
	case i.Ingress:
		return "ingress"
	case i.Egress:
		return "egress"
	}
	return "none"
}

// Namespace is an IOAM-Namespace of the node.
type Namespace struct {
	ID     uint16 `json:"id"`
	Data   uint32 `json:"data"`
	Wide   uint64 `json:"wide"`
	Schema uint32 `json:"schema"` // 24 bits
	State  []byte `json:"state,omitempty"`
	Remove bool   `json:"remove,omitempty"`
	Strict bool   `json:"strict,omitempty"`
	// Loopback sends back copies of packets with the loopback flag.
	Loopback bool `json:"loopback,omitempty"`
	// ProofFile is the file with the node's part of a proof. Only the data plane stores its
	// secrets.
	ProofFile string          `json:"proof,omitempty"`
	Proof     []proof.Profile `json:"-"` // up to two: for even and odd packet ids
}

func (n *Namespace) Summary() string {
	var parts []string
	if n.Remove {
		parts = append(parts, "ends here")
	}
	if n.ProofFile != "" {
		parts = append(parts, "proof of transit")
	}
	if n.Strict {
		parts = append(parts, "required")
	}
	if n.Loopback {
		parts = append(parts, "loopback")
	}
	return strings.Join(append(parts, fmt.Sprintf("data %#x", n.Data)), ", ")
}

// Encapsulation holds the options for packets of a scope.
type Encapsulation struct {
	Options  []Option `json:"options"`
	Sampling Sampling `json:"sampling"`
	Conditions
	// Tunnel is the destination of an outer IPv6 header; the zero value for none.
	Tunnel netip.Addr `json:"tunnel,omitzero"`
	// Flags of its traces: Loopback, Active.
	Flags codec.Flags `json:"flags,omitempty"`
}

// Option is one option of an encapsulation.
type Option struct {
	Type       codec.OptionType `json:"type"`
	Namespace  uint16           `json:"namespace"`
	Fields     codec.TraceType  `json:"fields,omitempty"` // of a trace or an export
	Nodes      int              `json:"nodes,omitempty"`  // capacity of the trace
	Edge       codec.EdgeType   `json:"edge,omitempty"`
	Extensions codec.Extensions `json:"extensions,omitempty"` // of an export
	carries    bool             // this node's opaque state is the context of a socket
}

// Sampling is the fraction of packets that is encapsulated.
type Sampling struct {
	Kind string  `json:"kind"` // every: k of n packets; chance; flows
	K    uint32  `json:"k,omitempty"`
	N    uint32  `json:"n,omitempty"`
	Part float64 `json:"part,omitempty"`
}

// Kinds of sampling.
const (
	Every  = "every"
	Chance = "chance"
	Flows  = "flows"
)

// All reports whether every packet is selected.
func (s Sampling) All() bool { return s.Kind == Every && s.K == s.N || s.Kind != Every && s.Part == 1 }

func (s Sampling) String() string {
	switch {
	case s.Kind == Every && s.N <= 1:
		return "every packet"
	case s.Kind == Every:
		return fmt.Sprintf("%d of %d packets", s.K, s.N)
	case s.Kind == Flows:
		return strconv.FormatFloat(100*s.Part, 'g', -1, 64) + " % of flows"
	}
	return strconv.FormatFloat(100*s.Part, 'g', -1, 64) + " % of packets"
}

func (e *Encapsulation) Summary() string {
	var parts []string
	for _, o := range e.Options {
		parts = append(parts, o.String())
	}
	if e.Tunnel.IsValid() {
		parts = append(parts, "in IPv6 to "+e.Tunnel.String())
	}
	if e.Flags&codec.Loopback != 0 {
		parts = append(parts, "sent back")
	}
	if e.Flags&codec.Active != 0 {
		parts = append(parts, "active")
	}
	parts = append(parts, e.Sampling.String())
	parts = append(parts, e.Conditions.words()...)
	return "IOAM " + strings.Join(parts, ", ")
}

func (o Option) String() string {
	switch o.Type {
	case codec.PreallocatedTrace:
		return fmt.Sprintf("trace %#06x of %d nodes in namespace %d", uint32(o.Fields), o.Nodes, o.Namespace)
	case codec.DirectExport:
		return fmt.Sprintf("direct export %#06x in namespace %d", uint32(o.Fields), o.Namespace)
	}
	return fmt.Sprintf("%s in namespace %d", o.Type, o.Namespace)
}

// Config is a node with its interfaces and namespaces.
type Config struct {
	Node       Node
	Interfaces []Interface
	Namespaces map[uint16]Namespace
}

// ConfigOf collects the declarations of a node.
func ConfigOf(items []policy.Item) Config {
	d := Config{Namespaces: map[uint16]Namespace{}}
	for _, item := range items {
		t, _ := item.Treatment.(*Treatment)
		switch {
		case t == nil:
		case t.Node != nil:
			d.Node = *t.Node
		case t.Interface != nil:
			d.Interfaces = append(d.Interfaces, *t.Interface)
		case t.Namespace != nil:
			d.Namespaces[t.Namespace.ID] = *t.Namespace
		}
	}
	return d
}

// Removes reports whether some namespace ends here.
func (d Config) Removes() bool {
	for _, n := range d.Namespaces {
		if n.Remove {
			return true
		}
	}
	return false
}

// loops reports whether some namespace sends copies back.
func (d Config) loops() bool {
	for _, n := range d.Namespaces {
		if n.Loopback {
			return true
		}
	}
	return false
}

// EncapsulationOf returns the encapsulation of a scope, or nil.
func EncapsulationOf(s policy.Scope) *Encapsulation {
	if t, _ := s.Treatments[Name].(*Treatment); t != nil {
		return t.Encapsulation
	}
	return nil
}

// hopByHop reports whether some option goes into a Hop-by-Hop header.
func (e *Encapsulation) hopByHop() bool {
	return slices.ContainsFunc(e.Options, func(o Option) bool { return o.Type != codec.EdgeToEdge })
}

// DeviceNames returns the interface of the declaration, if it has one.
func (t *Treatment) DeviceNames() []string {
	if t.Interface == nil {
		return nil
	}
	return []string{t.Interface.Name}
}

// WithDeviceNames returns a copy with the kernel's name of the interface.
func (t *Treatment) WithDeviceNames(now func(string) string) policy.Treatment {
	if t.Interface == nil {
		return t
	}
	renamed, at := *t, *t.Interface
	at.Name = now(at.Name)
	renamed.Interface = &at
	return &renamed
}
