// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"weir/bpf/headers"
	"weir/kernel/testutil"
	"weir/modules/ioam/codec"
)

// anEdge is an edge-to-edge option, in a Destination header.
var anEdge = Option{Type: codec.EdgeToEdge, Namespace: 123, Edge: codec.Sequence64}

// chained is an extension header: its options with their alignment, or its octets without options.
type chained struct {
	kind    byte
	options []string
}

// chainOf lists the extension headers that nodes read, by the parser of the judge, and the octets
// behind them.
func chainOf(t *testing.T, frame []byte) (chain []chained, rest []byte) {
	t.Helper()
	checkIP6(t, frame)
	list, flaw := extensions(frame, false)
	if flaw != "" {
		t.Fatalf("%s: %x", flaw, frame)
	}
	next, end := frame[ethernet+6], atOptions
	for _, e := range list {
		c := chained{kind: e.kind}
		if e.hasOptions() {
			all, flaw := tlvs(frame[e.from:e.to])
			if flaw != "" {
				t.Fatalf("%s in the header of type %d: %x", flaw, e.kind, frame)
			}
			for _, o := range all {
				if !o.padding() {
					c.options = append(c.options, fmt.Sprintf("%d: %x", o.at%8, o.octets))
				}
			}
		} else {
			c.options = append(c.options, fmt.Sprintf("%x", frame[e.from+1:e.to]))
		}
		chain, next, end = append(chain, c), frame[e.from], e.to
	}
	return chain, append([]byte{next}, frame[end:]...)
}

// extended returns the chain with an option at the start of the header of a type at index at,
// which is added if there is none.
func extended(chain []chained, at int, kind byte, option string) []chained {
	if at < len(chain) && chain[at].kind == kind {
		chain[at].options = append([]string{option}, chain[at].options...)
		return chain
	}
	added := append([]chained{{kind, []string{option}}}, chain[at:]...)
	return append(chain[:at:at], added...)
}

// randomOptions returns an options header that starts with up to 7 bytes of padding.
func randomOptions(r *rand.Rand, kind byte) headers.Header {
	h := []byte{0, 0}
	pad := func(n int) {
		switch {
		case n == 0:
		case n == 1 || len(h) == 2 && r.IntN(2) == 0: // elsewhere they would exceed the parser's limit
			h = append(h, make([]byte, n)...)
		default:
			h = append(append(h, 1, byte(n-2)), make([]byte, n-2)...)
		}
	}
	for range r.IntN(4) {
		pad(r.IntN(8))
		option := make([]byte, r.IntN(30))
		for i := range option {
			option[i] = byte(r.Uint32())
		}
		h = append(append(h, 0x1e, byte(len(option))), option...)
	}
	pad(-len(h) & 7)
	h[1] = byte(len(h)/8 - 1)
	return headers.Header{Kind: kind, Octets: h}
}

// Options join the existing Hop-by-Hop and Destination headers, in front of a Routing or Fragment
// header (RFC 8200 section 4.1), and everything else stays: its alignment, its order, its octets.
// Their end restores the packet.
func TestOptionsJoinExistingHeaders(t *testing.T) {
	exit := full
	exit.Remove = true
	first, last := newBench(t, aNode(full)), newBench(t, aNode(exit))
	r := testutil.Rand(t)
	chains := func() []headers.Chain {
		hop, destination := randomOptions(r, headers.HopByHop), randomOptions(r, headers.Destination)
		routing, piece := headers.Segments(1), headers.Piece(uint16(r.IntN(2)*185), true)
		chains := headers.Chains()
		for i, c := range [][]headers.Header{{}, {hop}, {destination}, {hop, destination}, {destination, destination}, {hop, routing}, {hop, routing, destination},
			{hop, destination, routing, destination}, {routing}, {piece}, {hop, piece}, {hop, destination, piece}, {destination, piece}, {hop, headers.Authenticated(3), destination}} {
			chains = append(chains, headers.Chain{Name: fmt.Sprint("random ", i), Headers: c})
		}
		return chains
	}
	for _, options := range [][]Option{{aTrace}, {anEdge}, {aTrace, anEdge}} {
		first.again(aNode(full), aScope(Encapsulation{Options: options}))
		for range 20 {
			for _, c := range chains() {
				in := headers.Insert(packet(0, nil, r.IntN(200)), c.Headers...)
				verdict, got := first.run(first.objects.IoamEgress, in, skb{From: 1})
				if verdict != unspec || bytes.Equal(got, in) {
					t.Fatalf("%s, %v: verdict %d, %x became %x", c.Name, options, int32(verdict), in, got)
				}
				want, rest := chainOf(t, in)
				is, left := chainOf(t, got)
				hop := 0
				if len(want) > 0 && want[0].kind == headers.HopByHop {
					hop = 1
				}
				for _, o := range options {
					at, kind := 0, headers.HopByHop
					if o.Type == codec.EdgeToEdge {
						at, kind = hop, headers.Destination
					} else {
						hop = 1
					}
					if at >= len(is) || is[at].kind != kind {
						t.Fatalf("%s, %v: %x became %x", c.Name, options, in, got)
					}
					want = extended(want, at, kind, is[at].options[0])
				}
				if fmt.Sprint(is) != fmt.Sprint(want) || !bytes.Equal(left, rest) {
					t.Fatalf("%s, %v: %x became %x\n%v, want\n%v", c.Name, options, in, got, is, want)
				}
				checkOwn(t, got, options)
				verdict, after := last.run(last.objects.IoamIngress, got, skb{})
				before, rest := withoutEmpty(chainOf(t, in))
				now, left := withoutEmpty(chainOf(t, after))
				if verdict != unspec || fmt.Sprint(now) != fmt.Sprint(before) || !bytes.Equal(left, rest) {
					t.Fatalf("%s, %v: verdict %d at the end, %x became %x", c.Name, options, int32(verdict), in, after)
				}
			}
		}
	}
}

// withoutEmpty drops headers of padding alone, which the end of options drops too.
func withoutEmpty(chain []chained, rest []byte) (kept []chained, _ []byte) {
	for _, c := range chain {
		if len(c.options) > 0 {
			kept = append(kept, c)
		}
	}
	return kept, rest
}

// checkOwn decodes the node's options in the first headers of a frame.
func checkOwn(t *testing.T, frame []byte, options []Option) {
	t.Helper()
	list, _ := extensions(frame, false)
	for _, o := range options {
		at := 0
		if o.Type == codec.EdgeToEdge && list[0].kind == headers.HopByHop {
			at = 1
		}
		h, err := codec.DecodeHeader(frame[list[at].from:])
		if err != nil || len(h.Options) == 0 || h.Options[0].Type != o.Type || h.Options[0].Offset > 8 {
			t.Fatalf("%v, %+v in %x", err, h, frame)
		}
		if o.Type == codec.EdgeToEdge {
			if e, err := codec.DecodeEdge(h.Options[0].Data); err != nil || e.Namespace != 123 || e.Fields != o.Edge {
				t.Fatalf("%v, %+v in %x", err, e, frame)
			}
			continue
		}
		want := codec.NewTrace(123, o.Fields, o.Nodes-1, len(full.State)/4)
		want.Nodes = []codec.Node{expected(full)}
		if !bytes.Equal(h.Options[0].Data, want.Append(nil)) {
			t.Fatalf("a trace of %x, want %x", h.Options[0].Data, want.Append(nil))
		}
	}
}

// Headers without space leave the packet unchanged, by reason.
func TestHeadersWithoutSpaceAreCounted(t *testing.T) {
	b := newBench(t, aNode(full))
	padded := headers.Header{Kind: headers.Destination, Octets: append([]byte{0, 1, 1, 6}, make([]byte, 12)...)}
	cut := headers.Insert(packet(0, nil, 0), headers.Options(headers.HopByHop, 64))
	for _, test := range []struct {
		name    string
		in      []byte
		options []Option
	}{
		{"a Hop-by-Hop header of maximum length", headers.Insert(packet(0, nil, 0), headers.Options(headers.HopByHop, 2048)), []Option{aTrace}},
		{"the same, with edge", headers.Insert(packet(0, nil, 0), headers.Options(headers.HopByHop, 2048)), []Option{anEdge}},
		{"a Destination header of maximum length", headers.Insert(packet(0, nil, 0), headers.Options(headers.Destination, 2048)), []Option{anEdge}},
		{"8 bytes of padding", headers.Insert(packet(0, nil, 0), padded), []Option{anEdge}},
		{"a header that is cut off", cut[:atOptions+32], []Option{anEdge}},
	} {
		b.again(aNode(full), aScope(Encapsulation{Options: test.options}))
		if _, got := b.run(b.objects.IoamEgress, test.in, skb{From: 1}); !bytes.Equal(got, test.in) {
			t.Errorf("%s: %x became %x", test.name, test.in, got)
		}
		c, err := b.scopeCounts(3)
		if err != nil || c.NoRoom != 1 || c.Encapsulated != 0 {
			t.Errorf("%s: %v, %+v", test.name, err, c)
		}
	}
}
