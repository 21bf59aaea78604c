// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/kernel/testutil"
)

func octets(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.NewReplacer(" ", "", "\n", "").Replace(text))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Valid headers, and the reason of each error for others.
func TestHeadersAreReadStrictly(t *testing.T) {
	for _, test := range []struct {
		name, octets string
		want         Reason // "": no error
		options      int
	}{
		{"a trace one octet too long", "3a 03 0100 311b 0000 007b 0806 800000 00 0000000000000000000000000000000000000000", ShortOption, 0},
		{"a trace", "3a 02 0100 3112 0000 007b 0802 800000 00 0000000000000000", "", 1},
		{"padding alone", "3a 00 0104 00000000", "", 0},
		{"seven Pad1 and a PadN", "3a 01 00000000000000 0105 0000000000", LongPadding, 0},
		{"an unknown option", "3a 00 0502 0000 0100", "", 0},
		{"empty", "", ShortHeader, 0},
		{"seven octets", "3a 00 0104 000000", ShortHeader, 0},
		{"a header longer than its octets", "3a 01 0104 00000000", ShortHeader, 0},
		{"a type at the end", "3a 00 0103 000000 31", ShortOption, 0},
		{"an option beyond the header", "3a 00 0100 3103 0000", ShortOption, 0},
		{"an option of length 0", "3a 00 0100 3100 0100", ShortData, 0},
		{"an option of length 1", "3a 00 0100 3101 0000", ShortData, 0},
		{"an option between words", "3a 00 00 3102 00 00 00", Misaligned, 0},
	} {
		h, err := DecodeHeader(octets(t, test.octets))
		var e *Error
		if got := errors.As(err, &e); got != (test.want != "") || got && e.Reason != test.want {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
		if err == nil && len(h.Options) != test.options {
			t.Errorf("%s: %d options", test.name, len(h.Options))
		}
	}
}

// randomTrace returns a trace of random fields that fits an option.
func randomTrace(r *rand.Rand) Trace {
	fields := TraceType(r.Uint32N(1<<24)) &^ reservedBit
	if r.IntN(3) > 0 {
		fields &^= Undefined
	}
	t := NewTrace(uint16(r.Uint32()), fields, 0, 0)
	t.Incremental = r.IntN(4) == 0
	t.Flags = Flags(r.IntN(16))
	left := 240
	for range r.IntN(5) {
		n := Node{HopLimit: uint8(r.Uint32()), ID: r.Uint32() & None24, Ingress: uint16(r.Uint32()), Egress: uint16(r.Uint32()), Seconds: r.Uint32(), Fraction: r.Uint32(),
			TransitDelay: r.Uint32(), Data: r.Uint32(), QueueDepth: r.Uint32(), Checksum: r.Uint32(), WideHopLimit: uint8(r.Uint32()), WideID: r.Uint64() & None56,
			WideIngress: r.Uint32(), WideEgress: r.Uint32(), WideData: r.Uint64(), Occupancy: r.Uint32(), Schema: r.Uint32() & None24, Opaque: make([]byte, 4*r.IntN(4))}
		for i := range n.Undefined {
			n.Undefined[i] = r.Uint32()
		}
		size := len(n.append(nil, fields))
		if size == 0 || size > left {
			break
		}
		left -= size
		t.Nodes = append(t.Nodes, n)
	}
	t.Remaining = uint8(r.IntN(left/4 + 1))
	return t
}

// The decoder and the oracle read encoded traces alike.
func TestTracesAgreeWithTheOracle(t *testing.T) {
	r := testutil.Rand(t)
	for range 4_000 {
		want := randomTrace(r)
		header := AppendHeader(nil, 17, want)
		h, err := DecodeHeader(header)
		if err != nil || len(h.Options) != 1 || h.Length != len(header) || h.NextHeader != 17 {
			t.Fatalf("header %x: %v, %+v", header, err, h)
		}
		got, err := DecodeTrace(h.Options[0].Type, h.Options[0].Data)
		if err != nil {
			t.Fatalf("%x: %v", header, err)
		}
		if oracle := oracleTrace(want.Incremental, h.Options[0].Data); described(got) != oracle {
			t.Fatalf("%x: decoded\n%s\nthe oracle\n%s", header, described(got), oracle)
		}
		if again := got.Append(nil); !bytes.Equal(again, h.Options[0].Data) {
			t.Fatalf("%x becomes %x", h.Options[0].Data, again)
		}
	}
}

func checkTrace(t *testing.T, data []byte) {
	for _, kind := range []OptionType{PreallocatedTrace, IncrementalTrace} {
		got, err := DecodeTrace(kind, data)
		oracle := oracleTrace(kind == IncrementalTrace, data)
		if (err == nil) != (oracle != "") || err == nil && described(got) != oracle {
			t.Errorf("%s %x: %v\n%s\nthe oracle\n%s", kind, data, err, described(got), oracle)
		}
	}
}

func FuzzTrace(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		f.Add(randomTrace(r).Append(nil))
	}
	f.Fuzz(checkTrace)
}

// Decoders end for all input, and accepted options lie within their header.
func checkHeader(t *testing.T, b []byte) {
	h, err := DecodeHeader(b)
	if err != nil {
		return
	}
	for _, o := range h.Options {
		if o.Offset < 2 || o.Offset+optionHead+len(o.Data) > h.Length {
			t.Errorf("%x: option at %d with %d octets lies outside", b, o.Offset, len(o.Data))
		}
		checkTrace(t, o.Data)
		if p, err := DecodeProof(o.Data); err == nil && p.Kind == 0 && !bytes.Equal(p.Append(nil), o.Data) {
			t.Errorf("proof %x becomes %x", o.Data, p.Append(nil))
		}
		if e, err := DecodeEdge(o.Data); err == nil && !bytes.HasPrefix(o.Data, e.Append(nil)) {
			t.Errorf("edge-to-edge %x becomes %x", o.Data, e.Append(nil))
		}
		if x, err := DecodeExport(o.Data); err == nil && x.Extensions&0x3f == 0 && o.Data[7] == 0 && !bytes.Equal(x.Append(nil), o.Data) {
			t.Errorf("direct export %x becomes %x", o.Data, x.Append(nil))
		}
	}
}

func FuzzHeader(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		f.Add(AppendHeader(nil, 6, randomTrace(r), Proof{Namespace: 7, PacketID: r.Uint64()}, Export{Extensions: FlowID | ExportSequence, Fields: HopLimitNode}))
		f.Add(AppendHeader(nil, 6, Edge{Namespace: 1, Fields: Sequence64 | EdgeSeconds | EdgeFraction, Sequence: r.Uint64()}))
	}
	f.Fuzz(checkHeader)
}

// Random and mutated input, in larger numbers than a fuzzer's corpus.
func TestMutatedHeadersAreNoTrap(t *testing.T) {
	r := testutil.Rand(t)
	for range 5_000 {
		b := AppendHeader(nil, 6, randomTrace(r), Proof{PacketID: r.Uint64()}, Edge{Fields: Sequence32}, Export{Extensions: FlowID})
		for range 1 + r.IntN(4) {
			b[r.IntN(min(len(b), 40))] = byte(r.Uint32())
		}
		checkHeader(t, b[:r.IntN(len(b)+1)])
		checkHeader(t, b)
	}
}

func TestTheOthersAreReadAndWritten(t *testing.T) {
	bodies := []Body{
		Proof{Namespace: 9, PacketID: 1 << 60, Cumulative: 77}, Edge{Namespace: 2, Fields: Sequence64 | EdgeSeconds | EdgeFraction, Sequence: 1 << 40, Seconds: 5, Fraction: 6},
		Edge{Namespace: 2, Fields: Sequence32, Sequence: 9}, Export{Namespace: 3, Extensions: FlowID | ExportSequence, Fields: HopLimitNode | Seconds, Flow: 4, Sequence: 5},
	}
	h, err := DecodeHeader(AppendHeader(nil, 59, bodies...))
	if err != nil || len(h.Options) != len(bodies) {
		t.Fatal(err, h)
	}
	for i, o := range h.Options {
		var got Body
		switch o.Type {
		case ProofOfTransit:
			got, err = DecodeProof(o.Data)
		case EdgeToEdge:
			got, err = DecodeEdge(o.Data)
		case DirectExport:
			got, err = DecodeExport(o.Data)
		}
		if err != nil || !cmp.Equal(got, bodies[i]) {
			t.Errorf("%s: %v, %s", o.Type, err, cmp.Diff(bodies[i], got))
		}
	}
}

func TestOtherMistakesHaveReasons(t *testing.T) {
	proof := func(b []byte) error { _, err := DecodeProof(b); return err }
	edge := func(b []byte) error { _, err := DecodeEdge(b); return err }
	export := func(b []byte) error { _, err := DecodeExport(b); return err }
	trace := func(b []byte) error { _, err := DecodeTrace(PreallocatedTrace, b); return err }
	for _, test := range []struct {
		name, octets string
		decode       func([]byte) error
		want         Reason
	}{
		{"a proof of 3 octets", "000000", proof, ShortData},
		{"a proof with 15 octets", "00000000 0000000000000000 00000000000000", proof, FieldLength},
		{"an edge-to-edge option of 3 octets", "000000", edge, ShortData},
		{"two sequence numbers", "0000c000 000000000000000000000000", edge, SequenceTwice},
		{"a sequence number cut", "00008000 00000000", edge, FieldLength},
		{"an export of 7 octets", "00000000000000", export, ShortData},
		{"an export without its flow", "00000080 80000000", export, FieldLength},
		{"an export with a word too many", "00000000 80000000 00000000", export, FieldLength},
		{"a trace of 7 octets", "00000000000000", trace, ShortData},
		{"a trace of 9 octets", "000008008000000000", trace, OddData},
		{"node length 0", "0000 0000 800000 00", trace, NodeLength},
		{"remaining beyond the end", "0000 0802 800000 00 00000000", trace, Remaining},
		{"half a node", "0000 1000 c00000 00 00000000", trace, NodeTruncated},
		{"an opaque state beyond the end", "0000 0000 000002 00 02000000 00000000", trace, NodeTruncated},
		{"data of nodes that add nothing", "0000 0000 000000 00 00000000", trace, NodeTruncated},
	} {
		var e *Error
		if err := test.decode(octets(t, test.octets)); !errors.As(err, &e) || e.Reason != test.want {
			t.Errorf("%s: %v, want %s", test.name, err, test.want)
		}
	}
}

// Nodes record until the trace is full. Then the overflow flag is set, and later nodes change
// nothing.
func TestNodesRecordUntilTheTraceIsFull(t *testing.T) {
	data := NewTrace(123, HopLimitNode|Interfaces|Opaque, 2, 1).Append(nil)
	for i, want := range []Added{Recorded, Recorded, NoRoom, Overfull} {
		before := bytes.Clone(data)
		got, err := Record(data, Node{HopLimit: uint8(64 - i), ID: uint32(i), Schema: 5, Opaque: []byte("weir")})
		if err != nil || got != want {
			t.Fatalf("node %d: %d, %v", i, got, err)
		}
		if want == Overfull && !bytes.Equal(before, data) {
			t.Errorf("a full trace was changed")
		}
	}
	got, err := DecodeTrace(PreallocatedTrace, data)
	if err != nil || got.Flags != Overflow || got.Remaining != 0 || len(got.Nodes) != 2 || got.Nodes[0].ID != 1 || got.Nodes[1].HopLimit != 64 || string(got.Nodes[0].Opaque) != "weir" {
		t.Errorf("%v, %+v", err, got)
	}
}
