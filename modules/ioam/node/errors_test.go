// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"weir/modules/ioam/codec"
)

// icmpSum returns the checksum of a frame's ICMPv6 message; 0 if it is right.
func icmpSum(frame []byte) uint16 {
	message := frame[ethernet+ip6Size:]
	sum := uint32(len(message)) + 58
	for _, part := range [][]byte{frame[ethernet+8 : ethernet+40], message} {
		for i, b := range part {
			if i%2 == 0 {
				sum += uint32(b) << 8
			} else {
				sum += uint32(b)
			}
		}
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

// An error that leaves the domain has no IOAM data, and the MTU without the options.
func TestErrorsToTheOutsideTellNothing(t *testing.T) {
	d := aNode(full)
	d.Interfaces[0].Egress = false
	b := newBench(t, d)
	trace := codec.NewTrace(123, deterministic, 1, 3)
	trace.Nodes = []codec.Node{expected(full)}
	short := codec.NewTrace(123, codec.HopLimitNode, 0, 0)
	short.Nodes = []codec.Node{expected(full)}
	behind := codec.AppendHeader(nil, 17, codec.Edge{Namespace: 5, Fields: codec.Sequence32, Sequence: 0x0102033d})
	for _, test := range []struct {
		name      string
		kind      byte
		headers   []byte
		cut       int // missing octets of the quotation
		mtu, want uint32
		cleared   bool
	}{
		{"too big", 2, hop(trace), 0, 1500, 1500 - uint32(len(hop(trace))), true},
		{"short", 2, hop(short), 0, 1400, 1400 - uint32(len(hop(short))), true},
		{"too big for less than IPv6's least", 2, hop(trace), 0, 1290, 1290, true},
		{"unreachable", 1, hop(trace), 0, 0, 0, true},
		{"cut", 1, hop(trace), 100, 0, 0, true},
		{"without IOAM", 2, []byte{17, 0, 0x1e, 4, 1, 2, 3, 4}, 0, 1400, 1400, false},
		{"behind a Fragment header", 1, slices.Concat([]byte{44, 0, 0x1e, 4, 1, 2, 3, 4}, []byte{60, 0, 0, 1, 1, 2, 3, 4}, behind), 0, 0, 0, true},
		{"in Destination Options", 2, behind, 0, 1500, 1500 - uint32(len(behind)), true},
		{"an echo request", 128, hop(trace), 0, 5, 5, false},
	} {
		first := byte(0)
		if test.name == "in Destination Options" {
			first = 60
		}
		quoted := packet(first, test.headers, 10)[ethernet:]
		quoted = quoted[:len(quoted)-test.cut]
		in := packet(58, nil, 0)[:ethernet+ip6Size]
		in[ethernet+6] = 58
		binary.BigEndian.PutUint16(in[ethernet+4:], uint16(8+len(quoted)))
		in = append(in, test.kind, 0, 0, 0)
		in = append(binary.BigEndian.AppendUint32(in, test.mtu), quoted...)
		binary.BigEndian.PutUint16(in[ethernet+ip6Size+2:], icmpSum(in))
		verdict, got := b.run(b.objects.IoamEgress, in, skb{From: 1})
		if verdict != unspec || len(got) != len(in) || icmpSum(got) != 0 {
			t.Fatalf("%s: verdict %d, checksum %#x\n%x\n%x", test.name, verdict, icmpSum(got), in, got)
		}
		if mtu := binary.BigEndian.Uint32(got[ethernet+ip6Size+4:]); mtu != test.want {
			t.Errorf("%s: the MTU is %d, want %d", test.name, mtu, test.want)
		}
		header := got[ethernet+ip6Size+8+ip6Size:]
		if told := bytes.Contains(header, []byte{1, 2, 3, 61}) || bytes.Contains(header, []byte{61, 1, 2, 3}); told == test.cleared && test.kind < 128 && test.name != "without IOAM" {
			t.Errorf("%s: the node's id is in %x", test.name, header)
		}
		if !test.cleared && !bytes.Equal(got, in) {
			t.Errorf("%s: it was changed", test.name)
		}
	}
	if n := b.counted(ioamIoamCountIOAM_ERROR_CLEARED); n != 7 {
		t.Errorf("%d were cleared, want 7", n)
	}
}

// tooBig returns a Packet Too Big to the source of a quoted packet.
func tooBig(quoted []byte, mtu uint32) []byte {
	in := packet(58, nil, 0)[:ethernet+ip6Size]
	in[ethernet+6] = 58
	binary.BigEndian.PutUint16(in[ethernet+4:], uint16(8+len(quoted)))
	in = append(in, 2, 0, 0, 0)
	in = append(binary.BigEndian.AppendUint32(in, mtu), quoted...)
	binary.BigEndian.PutUint16(in[ethernet+ip6Size+2:], icmpSum(in))
	return in
}

// If a path's MTU less the options is below 1280, its longer packets get no options. This host
// learns MTUs less the options, like sources outside the domain.
func TestNoOptionsBelowTheMinimumMTU(t *testing.T) {
	outside := aNode(full)
	outside.Interfaces[0].Egress = false
	for _, test := range []struct {
		name      string
		mtu, want uint32
		local     bool
		options   bool // a packet of 1350 bytes gets them afterwards
	}{
		{"at the border", 1300, 1300, false, false},
		{"at the border, with space", 1400, 1400 - 40, false, true},
		{"for this host", 1300, 1300, true, false},
		{"for this host, with space", 1400, 1400 - 40, true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t, aNode(full), aScope(Encapsulation{Options: []Option{aTrace}, Sampling: Sampling{Kind: Every, K: 1, N: 1}}))
			trace := codec.NewTrace(123, codec.HopLimitNode|codec.Interfaces, 3, 0)
			if len(hop(trace)) != 40 {
				t.Fatalf("options of %d bytes", len(hop(trace)))
			}
			in, program := tooBig(packet(0, hop(trace), 100)[ethernet:], test.mtu), b.objects.IoamIngress
			if !test.local {
				b.again(outside)
				program = b.objects.IoamEgress
			}
			_, got := b.run(program, in, skb{})
			if mtu := binary.BigEndian.Uint32(got[ethernet+ip6Size+4:]); mtu != test.want || icmpSum(got) != 0 {
				t.Errorf("the MTU is %d, want %d; checksum %#x", mtu, test.want, icmpSum(got))
			}
			b.again(aNode(full), aScope(Encapsulation{Options: []Option{aTrace}, Sampling: Sampling{Kind: Every, K: 1, N: 1}}))
			_, long := b.run(b.objects.IoamEgress, packet(0, nil, 1350-48), skb{})
			_, short := b.run(b.objects.IoamEgress, packet(0, nil, 1000), skb{})
			if has := long[ethernet+6] == 0; has != test.options || short[ethernet+6] != 0 {
				t.Errorf("options of a long packet: %t, want %t; of a short one: %t", has, test.options, short[ethernet+6] == 0)
			}
		})
	}
}
