// SPDX-License-Identifier: Apache-2.0

// Package collect aggregates records of nodes to flows and paths: ended traces, and postcards of
// direct export. It is pure.
//
// Pitfalls: hops are in path order, while a trace has the last node first. Values that a node could
// not fill are missing. Times of different nodes depend on their clocks.
package collect

import (
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"weir/modules/ioam/codec"
)

// Flow identifies the packets of a flow. It is comparable.
type Flow struct {
	Source          netip.Addr `json:"source"`
	Destination     netip.Addr `json:"destination"`
	SourcePort      uint16     `json:"source_port,omitempty"`
	DestinationPort uint16     `json:"destination_port,omitempty"`
	Protocol        uint8      `json:"protocol"`
}

func (f Flow) String() string {
	if f.SourcePort == 0 && f.DestinationPort == 0 {
		return fmt.Sprintf("%s > %s, protocol %d", f.Source, f.Destination, f.Protocol)
	}
	return fmt.Sprintf("[%s]:%d > [%s]:%d, protocol %d", f.Source, f.SourcePort, f.Destination, f.DestinationPort, f.Protocol)
}

// Record is the report of one node about one packet.
type Record struct {
	Time         int64  `json:"time_ns"` // since 1970
	Flow         Flow   `json:"flow"`
	FlowLabel    uint32 `json:"flow_label"`
	TrafficClass uint8  `json:"traffic_class"`
	HopLimit     uint8  `json:"hop_limit"`
	Interface    uint32 `json:"interface"` // index of the ingress interface
	Length       uint32 `json:"length"`    // bytes of the IPv6 packet
	// Proof is "holds", "does not hold", "replayed", or "" without a proof.
	Proof string `json:"proof,omitempty"`
	// Looped reports a copy sent back by a node: that node is the source, and the traces contain
	// both directions.
	Looped bool `json:"looped,omitempty"`
	// Context is the trace context of the packet's request.
	Context TraceContext  `json:"traceparent,omitzero"`
	Traces  []Trace       `json:"traces,omitempty"`
	Edges   []codec.Edge  `json:"edges,omitempty"`
	Export  *codec.Export `json:"export,omitempty"` // of a postcard; its single hop is the only trace
}

// Trace is one trace of a packet.
type Trace struct {
	Namespace uint16 `json:"namespace"`
	Overflow  bool   `json:"overflow,omitempty"`
	Hops      []Hop  `json:"hops"`
	fields    codec.TraceType
}

// Optional is a value that may be missing. The zero value is missing.
type Optional[T uint32 | uint64 | int64] struct {
	Value T
	Known bool
}

func (v Optional[T]) text() string {
	if !v.Known {
		return "-"
	}
	return fmt.Sprint(v.Value)
}

// MarshalJSON writes the value alone.
func (v Optional[T]) MarshalJSON() ([]byte, error) {
	return strconv.AppendUint(nil, uint64(v.Value), 10), nil
}

// Hop holds the data of one node.
type Hop struct {
	Node      uint64           `json:"node"`
	HopLimit  uint8            `json:"hop_limit"`
	Ingress   Optional[uint32] `json:"ingress,omitzero"`
	Egress    Optional[uint32] `json:"egress,omitzero"`
	Received  Optional[int64]  `json:"received_ns,omitzero"` // since 1970
	Delay     Optional[int64]  `json:"delay_ns,omitzero"`    // in the node
	Queue     Optional[uint32] `json:"queue,omitzero"`
	Data      Optional[uint64] `json:"data,omitzero"`
	Occupancy Optional[uint32] `json:"occupancy,omitzero"`
	Schema    Optional[uint32] `json:"schema,omitzero"`
	State     []byte           `json:"state,omitempty"`
}

// Clock is the format of times in a domain.
type Clock string

// The formats (RFC 9197 section 5).
const (
	POSIX Clock = "posix"
	PTP   Clock = "ptp"
	NTP   Clock = "ntp"
)

// nanoseconds since 1970.
func (c Clock) nanoseconds(seconds, fraction uint32) int64 {
	switch c {
	case PTP:
		return int64(seconds)*1e9 + int64(fraction)
	case NTP:
		return int64(seconds-2208988800)*1e9 + int64(uint64(fraction)*1e9>>32)
	}
	return int64(seconds)*1e9 + int64(fraction)*1e3
}

// Decode decodes the extension headers of a packet into the record; first is the type of the first
// header. It returns an error for malformed data of other nodes.
func (r *Record) Decode(clock Clock, first uint8, headers []byte) error {
	for len(headers) > 0 && (first == 0 || first == 43 || first == 60) {
		if first == 43 {
			if len(headers) < 8 || len(headers) < (int(headers[1])+1)*8 {
				return fmt.Errorf("routing header: %d octets", len(headers))
			}
			first, headers = headers[0], headers[(int(headers[1])+1)*8:]
			continue
		}
		h, err := codec.DecodeHeader(headers)
		if err != nil {
			return err
		}
		for _, o := range h.Options {
			if err := r.option(clock, o); err != nil {
				return fmt.Errorf("%s: %w", o.Type, err)
			}
		}
		first, headers = h.NextHeader, headers[h.Length:]
	}
	return nil
}

func (r *Record) option(clock Clock, o codec.Option) error {
	switch o.Type {
	case codec.PreallocatedTrace, codec.IncrementalTrace:
		t, err := codec.DecodeTrace(o.Type, o.Data)
		if err != nil {
			return err
		}
		trace := Trace{Namespace: t.Namespace, Overflow: t.Flags&codec.Overflow != 0, Hops: make([]Hop, len(t.Nodes)), fields: t.Fields}
		for i := range t.Nodes {
			trace.Hops[len(t.Nodes)-1-i].fill(clock, t.Fields, &t.Nodes[i])
		}
		r.Traces = append(r.Traces, trace)
	case codec.EdgeToEdge:
		e, err := codec.DecodeEdge(o.Data)
		if err != nil {
			return err
		}
		r.Edges = append(r.Edges, e)
	}
	return nil
}

// DecodePostcard decodes a direct export option and the data of the node.
func (r *Record) DecodePostcard(clock Clock, octets []byte) error {
	if len(octets) < 8 {
		return fmt.Errorf("postcard of %d octets", len(octets))
	}
	size := 8
	for bits := octets[3]; bits != 0; bits &= bits - 1 {
		size += 4
	}
	if len(octets) < size {
		return fmt.Errorf("postcard of %d octets, the option alone has %d", len(octets), size)
	}
	x, err := codec.DecodeExport(octets[:size])
	if err != nil {
		return err
	}
	r.Export = &x
	fields := x.Fields &^ codec.Checksum &^ 1
	head := codec.TraceHead{Namespace: x.Namespace, NodeLen: uint8(fields.Words()), Fields: fields}
	data := codec.Trace{TraceHead: head}.Append(make([]byte, 0, 128))
	t, err := codec.DecodeTrace(codec.PreallocatedTrace, append(data, octets[size:]...))
	if err != nil || len(t.Nodes) != 1 {
		return fmt.Errorf("postcard: %d nodes: %w", len(t.Nodes), err)
	}
	trace := Trace{Namespace: x.Namespace, Hops: make([]Hop, 1), fields: fields}
	trace.Hops[0].fill(clock, fields, &t.Nodes[0])
	r.Traces = append(r.Traces, trace)
	return nil
}

func optional[T uint32 | uint64 | int64](value, none T) Optional[T] {
	if value == none {
		return Optional[T]{}
	}
	return Optional[T]{value, true}
}

// fill copies the data of a node; wide values have precedence.
func (h *Hop) fill(clock Clock, fields codec.TraceType, n *codec.Node) {
	h.HopLimit, h.Node = n.HopLimit, uint64(n.ID)
	if fields&codec.WideHopLimitNode != 0 && (n.WideID != codec.None56 || fields&codec.HopLimitNode == 0) {
		h.HopLimit, h.Node = n.WideHopLimit, n.WideID
	}
	if fields&codec.Interfaces != 0 {
		h.Ingress, h.Egress = optional[uint32](uint32(n.Ingress), codec.None16), optional[uint32](uint32(n.Egress), codec.None16)
	}
	if fields&codec.WideInterfaces != 0 && (n.WideIngress&n.WideEgress != codec.None32 || fields&codec.Interfaces == 0) {
		h.Ingress, h.Egress = optional[uint32](n.WideIngress, codec.None32), optional[uint32](n.WideEgress, codec.None32)
	}
	if both := codec.Seconds | codec.Fraction; fields&both == both && (n.Seconds != codec.None32 || n.Fraction != codec.None32) {
		h.Received = Optional[int64]{clock.nanoseconds(n.Seconds, n.Fraction), true}
	}
	if fields&codec.TransitDelay != 0 && n.TransitDelay != codec.None32 {
		h.Delay = Optional[int64]{int64(min(n.TransitDelay, 1<<31)), true}
	}
	if fields&codec.QueueDepth != 0 {
		h.Queue = optional[uint32](n.QueueDepth, codec.None32)
	}
	if fields&codec.NamespaceData != 0 && n.Data != codec.None32 {
		h.Data = Optional[uint64]{uint64(n.Data), true}
	}
	if fields&codec.WideData != 0 && (n.WideData != codec.None64 || fields&codec.NamespaceData == 0) {
		h.Data = optional[uint64](n.WideData, codec.None64)
	}
	if fields&codec.BufferOccupancy != 0 {
		h.Occupancy = optional[uint32](n.Occupancy, codec.None32)
	}
	if fields&codec.Opaque != 0 && n.Schema != codec.None24 {
		h.Schema, h.State = Optional[uint32]{n.Schema, true}, n.Opaque
	}
}

// At returns the time of the record.
func (r *Record) At() time.Time { return time.Unix(0, r.Time) }
