// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/binary"
	"net/netip"

	"weir/internal/fault"
	"weir/modules/ioam/codec"
)

// Bounds of one encapsulation.
const (
	MaxOptions = int(ioamIoamBoundsIOAM_ITEMS)
	maxHeader  = 2048
	maxWords   = 127 // of a trace's data, in a field of 7 bits
	maxOption  = 255
	optionHead = 2 // counted octets of an IOAM option before its data
	MaxState   = 4 * int(ioamIoamBoundsIOAM_OPAQUE)
)

// template is an encapsulation in the form of the data plane: headers, and the fields to fill in.
type template struct {
	encap  ioamIoamEncap
	octets []byte
}

// nodeWords returns the words that this node adds to a trace.
func nodeWords(fields codec.TraceType, ns Namespace) int {
	words := fields.Words()
	if fields&codec.Opaque != 0 {
		words += 1 + len(ns.State)/4
	}
	return words
}

// capacity returns the capacity of a trace in nodes, including the way back with the loopback flag.
func (o Option) capacity(flags codec.Flags) int {
	if flags&codec.Loopback != 0 {
		return 2 * o.Nodes
	}
	return o.Nodes
}

// words returns the words of the data of a trace.
func (o Option) words(namespaces map[uint16]Namespace, flags codec.Flags) int {
	all := o.capacity(flags) * nodeWords(o.Fields, namespaces[o.Namespace])
	if o.carries {
		all += (contextState - len(namespaces[o.Namespace].State)) / 4
	}
	return all
}

// body returns an option with space for the data, and the offset of the data in words after the
// IOAM-Option-Type.
func (o Option) body(namespaces map[uint16]Namespace, flags codec.Flags) (body codec.Body, kind ioamIoamItemKind, kinds uint32, at int) {
	switch o.Type {
	case codec.ProofOfTransit:
		return codec.Proof{Namespace: o.Namespace}, ioamIoamItemKindIOAM_PROOF, 0, 1
	case codec.EdgeToEdge:
		return codec.Edge{Namespace: o.Namespace, Fields: o.Edge}, ioamIoamItemKindIOAM_EDGE, uint32(o.Edge), 1
	case codec.DirectExport:
		return codec.Export{Namespace: o.Namespace, Fields: o.Fields, Extensions: o.Extensions}, ioamIoamItemKindIOAM_EXPORT, uint32(o.Extensions), 2
	}
	own := nodeWords(o.Fields, namespaces[o.Namespace])
	t := codec.NewTrace(o.Namespace, o.Fields, 0, 0)
	t.Flags, t.Remaining = flags, uint8((o.capacity(flags)-1)*own)
	kind, state := ioamIoamItemKindIOAM_TRACE, len(namespaces[o.Namespace].State)
	if o.carries {
		kind, state = ioamIoamItemKindIOAM_CARRIER, contextState
	}
	t.Nodes = []codec.Node{{Opaque: make([]byte, state)}} // this one
	return t, kind, uint32(o.Fields), 2 + (o.capacity(flags)-1)*own
}

// Check rejects options that do not fit.
func (e *Encapsulation) Check(namespaces map[uint16]Namespace) error {
	_, err := newTemplate(e, namespaces)
	return err
}

// newTemplate builds the headers of an encapsulation. Options are aligned to end at a multiple of 8
// octets, so that following headers keep their alignment.
func newTemplate(e *Encapsulation, namespaces map[uint16]Namespace) (*template, error) {
	t := &template{}
	t.encap.Flags = uint32(e.Flags) << 7
	if e.Tunnel.IsValid() {
		t.encap.Tunnel, t.encap.Exit = 1, longs(e.Tunnel)
	}
	for _, edge := range []bool{false, true} {
		start := len(t.octets)
		if edge || e.hopByHop() {
			t.octets = append(t.octets, 0, 0, 1, 0)
		}
		header := len(t.octets)
		for _, o := range e.Options {
			if (o.Type == codec.EdgeToEdge) != edge {
				continue
			}
			body, kind, fields, at := o.body(namespaces, e.Flags)
			if o.Type == codec.PreallocatedTrace && o.words(namespaces, e.Flags) > maxWords {
				return nil, fault.New(fault.Usage, "have fewer nodes or fields, or several options", "the data of %s is longer than 508 octets", o)
			}
			item := ioamIoamItem{At: uint16(len(t.octets)/4 + 1 + at), Namespace: o.Namespace, Type: fields, Kind: uint32(kind)}
			t.encap.Item[t.encap.Items] = item
			t.encap.Items++
			if o.Type == codec.EdgeToEdge || o.Type == codec.DirectExport {
				t.encap.Flows = 1
			}
			if optionHead+len(body.Append(nil)) > maxOption { // the length field has 1 octet
				return nil, fault.New(fault.Usage, "have fewer nodes or fields, or several options", "%s is longer than 255 octets", o)
			}
			octets := codec.AppendHeader(nil, 0, body)[4:] // aligned after 4 octets of header
			t.octets = append(t.octets, octets[:2+int(octets[1])]...)
		}
		if header == len(t.octets) {
			t.octets = t.octets[:start]
			continue
		}
		t.finish(start, edge)
	}
	if len(t.octets) > maxHeader || t.encap.Hop > maxHeader {
		return nil, fault.New(fault.Usage, "have fewer options, nodes or fields", "its options are %d octets long, and %d fit", len(t.octets), maxHeader)
	}
	return t, nil
}

// finish pads a header at its beginning and notes its length. Options are filled in as written.
func (t *template) finish(start int, edge bool) {
	if (len(t.octets)-start)%8 != 0 { // 4 octets of padding
		t.octets = append(t.octets, 0, 0, 0, 0)
		copy(t.octets[start+8:], t.octets[start+4:])
		copy(t.octets[start+2:], []byte{1, 4, 0, 0, 0, 0})
		for i := range t.encap.Items {
			if item := &t.encap.Item[i]; int(item.At)*4 > start {
				item.At++
			}
		}
	}
	length := len(t.octets) - start
	t.octets[start+1] = byte(length/8 - 1)
	if edge {
		t.encap.Destination = uint32(length)
	} else {
		t.encap.Hop = uint32(length)
	}
}

// value returns the bytes for the map.
func (t *template) value() (v ioamIoamTemplate) {
	for i := range len(t.octets) / 8 {
		v.Longs[i] = binary.NativeEndian.Uint64(t.octets[8*i:])
	}
	return v
}

// size returns the growth of a packet in bytes.
func (t *template) size() int {
	if t.encap.Tunnel != 0 {
		return ip6Header + len(t.octets)
	}
	return len(t.octets)
}

const ip6Header = 40

// longs returns an address in the form of the programs.
func longs(address netip.Addr) [2]uint64 {
	octets := address.As16()
	return [2]uint64{binary.NativeEndian.Uint64(octets[:8]), binary.NativeEndian.Uint64(octets[8:])}
}
