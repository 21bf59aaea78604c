// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"

	"weir/modules/ioam/codec"
)

// aTrace is an option for two nodes with fields that do not depend on the time.
var aTrace = Option{Type: codec.PreallocatedTrace, Namespace: 123, Fields: codec.HopLimitNode | codec.Interfaces | codec.NamespaceData, Nodes: 2}

// checkIP6 checks that the lengths in a frame match, and returns its first next header.
func checkIP6(t *testing.T, frame []byte) byte {
	t.Helper()
	if got, want := int(binary.BigEndian.Uint16(frame[ethernet+4:])), len(frame)-ethernet-ip6Size; got != want {
		t.Fatalf("the IPv6 header states %d octets, there are %d: %x", got, want, frame)
	}
	return frame[ethernet+6]
}

// Packets without a header, and with headers that start with every possible padding, get the
// options. Existing headers follow unchanged, and paddings stay short.
func TestOptionsArePutIn(t *testing.T) {
	wide := Option{Type: codec.PreallocatedTrace, Namespace: 123, Fields: codec.WideHopLimitNode | codec.Opaque, Nodes: 3}
	b := newBench(t, aNode(full))
	unknown := []byte{0x1e, 4, 'w', 'e', 'i', 'r'} // an experimental option
	for _, test := range []struct {
		name string
		old  []byte // bytes of the Hop-by-Hop header behind its length field
	}{
		{"no header", nil},
		{"an option at once", unknown},
		{"an option behind Pad1", append(append([]byte{0}, unknown...), 1, 5, 0, 0, 0, 0, 0)},
		{"an option behind PadN of 4", append(append([]byte{1, 2, 0, 0}, unknown...), 1, 2, 0, 0)},
		{"padding alone", []byte{1, 4, 0, 0, 0, 0}},
		{"six Pad1", append([]byte{0, 0, 0, 0, 0, 0}, 0x1e, 6, 1, 2, 3, 4, 5, 6)},
		{"PadN of 6", append([]byte{1, 4, 0, 0, 0, 0}, 0x1e, 6, 1, 2, 3, 4, 5, 6)},
		{"PadN of 7", append([]byte{1, 5, 0, 0, 0, 0, 0}, 0x1e, 5, 1, 2, 3, 4, 5)},
		{"IOAM of others", hop(codec.NewTrace(9, codec.HopLimitNode, 1, 0))[2:]},
	} {
		for _, options := range [][]Option{{aTrace}, {wide}, {aTrace, wide, aTrace}} {
			b.again(aNode(full), aScope(Encapsulation{Options: options}))
			var old []byte
			if test.old != nil {
				old = append([]byte{17, byte((2+len(test.old))/8 - 1)}, test.old...)
			}
			in := packet(0, old, 40)
			verdict, got := b.run(b.objects.IoamEgress, in, skb{From: 1})
			if verdict != unspec || checkIP6(t, got) != 0 {
				t.Fatalf("%s: verdict %d, %x", test.name, verdict, got)
			}
			h, err := codec.DecodeHeader(got[atOptions:])
			if err != nil || h.NextHeader != 17 {
				t.Fatalf("%s: %v, next header %d, %x", test.name, err, h.NextHeader, got[atOptions:])
			}
			if !bytes.Equal(got[atOptions+h.Length:], in[atOptions+len(old):]) {
				t.Errorf("%s: the payload is not what it was", test.name)
			}
			for i, o := range options {
				want := codec.NewTrace(123, o.Fields, o.Nodes-1, len(full.State)/4)
				want.Nodes = []codec.Node{expected(full)}
				if data := want.Append(nil); !bytes.Equal(h.Options[i].Data, data) {
					t.Errorf("%s: option %d is %x, want %x", test.name, i, h.Options[i].Data, data)
				}
			}
			if test.old != nil {
				before, err := codec.DecodeHeader(old)
				if err != nil || h.Others != before.Others || len(h.Options) != len(options)+len(before.Options) {
					t.Errorf("%s: of %d other options %d are left: %v", test.name, before.Others, h.Others, err)
				}
				if rest := test.old[max(0, len(test.old)-8):]; test.name != "padding alone" && !bytes.HasSuffix(got[atOptions:atOptions+h.Length], rest) {
					t.Errorf("%s: the header ends with %x, want %x", test.name, got[atOptions:atOptions+h.Length], rest)
				}
			}
		}
	}
}

// Options are removed at their end. The packet is then as before, including other options.
func TestWhatWasPutInIsTakenOut(t *testing.T) {
	exit := full
	exit.Remove = true
	b, others := newBench(t, aNode(exit)), codec.NewTrace(9, codec.HopLimitNode, 1, 0)
	for _, test := range []struct {
		name    string
		headers []byte
		want    []byte // headers; nil without any
	}{
		{"all of it", hop(codec.NewTrace(123, deterministic, 2, 3), codec.Proof{Namespace: 123}, codec.Export{Namespace: 123, Fields: codec.HopLimitNode}), nil},
		{"before another's", hop(codec.NewTrace(123, codec.HopLimitNode, 2, 0), others), hop(others)},
		{"behind another's", hop(others, codec.NewTrace(123, codec.HopLimitNode, 1, 0)), hop(others)},
		{"between two", hop(others, codec.NewTrace(123, codec.HopLimitNode, 3, 0), codec.Proof{Namespace: 9}), hop(others, codec.Proof{Namespace: 9})},
		{"nothing", hop(others), hop(others)},
		{"edge to edge", codec.AppendHeader(nil, 17, codec.Edge{Namespace: 123, Fields: codec.Sequence64}), nil},
	} {
		first := byte(0)
		if test.name == "edge to edge" {
			first = 60
		}
		in, want := packet(first, test.headers, 30), packet(0, test.want, 30)
		verdict, got := b.run(b.objects.IoamIngress, in, skb{})
		if verdict != unspec || checkIP6(t, got) != want[ethernet+6] {
			t.Fatalf("%s: verdict %d, %x", test.name, verdict, got)
		}
		if len(test.want) == 0 && !bytes.Equal(got, want) {
			t.Errorf("%s: %x, want %x", test.name, got, want)
		}
		if len(test.want) == 0 {
			continue
		}
		h, err := codec.DecodeHeader(got[atOptions:])
		before, _ := codec.DecodeHeader(test.want)
		if err != nil || h.NextHeader != 17 || !bytes.Equal(got[atOptions+h.Length:], want[atOptions+len(test.want):]) {
			t.Fatalf("%s: %v, %x", test.name, err, got)
		}
		if !cmp.Equal(data(h), data(before)) {
			t.Errorf("%s: options %x, want %x", test.name, data(h), data(before))
		}
	}
}

func data(h codec.Header) (all [][]byte) {
	for _, o := range h.Options {
		all = append(all, o.Data)
	}
	return all
}

// Hop-by-Hop and Destination Options headers with some options to remove.
func TestHeadersBehindEachOtherAreRebuilt(t *testing.T) {
	exit := full
	exit.Remove = true
	b := newBench(t, aNode(exit))
	own, others := codec.NewTrace(123, codec.HopLimitNode, 1, 0), codec.NewTrace(9, codec.HopLimitNode, 1, 0)
	edge, kept := codec.Edge{Namespace: 123, Fields: codec.Sequence32}, codec.Edge{Namespace: 9, Fields: codec.Sequence32}
	chain := func(first, second codec.Body) []byte {
		return append(codec.AppendHeader(nil, 60, first), codec.AppendHeader(nil, 17, second)...)
	}
	for name, test := range map[string]struct {
		in   []byte
		want []byte
		next byte
	}{
		"both":       {chain(own, edge), nil, 17},
		"the first":  {chain(own, kept), codec.AppendHeader(nil, 17, kept), 60},
		"the second": {chain(others, edge), codec.AppendHeader(nil, 17, others), 0},
		"none":       {chain(others, kept), chain(others, kept), 0},
	} {
		verdict, got := b.run(b.objects.IoamIngress, packet(0, test.in, 9), skb{})
		if verdict != unspec || checkIP6(t, got) != test.next {
			t.Fatalf("%s: verdict %d, %x", name, verdict, got)
		}
		if want := packet(test.next, test.want, 9); !bytes.Equal(got[atOptions:], want[atOptions:]) {
			t.Errorf("%s: %x, want %x", name, got[atOptions:], want[atOptions:])
		}
	}
}

// IOAM passes the domain's edge in neither direction; other options do.
func TestTheDomainIsClosed(t *testing.T) {
	d := aNode(full)
	d.Interfaces[0].Ingress, d.Interfaces[0].Egress = false, false
	b := newBench(t, d)
	experiment := []byte{17, 0, 0x1e, 4, 1, 2, 3, 4}
	edge := codec.AppendHeader(nil, 17, codec.Edge{Fields: codec.Sequence32})
	malformed := hop(codec.NewTrace(123, codec.HopLimitNode, 1, 0))
	malformed[5] = 200
	for _, test := range []struct {
		name    string
		first   byte
		headers []byte
		want    uint32
	}{
		{"no header", 0, nil, unspec},
		{"another option", 0, experiment, unspec},
		{"a trace", 0, hop(codec.NewTrace(123, codec.HopLimitNode, 1, 0)), shot},
		{"a trace of an unknown namespace", 0, hop(codec.NewTrace(5, codec.HopLimitNode, 1, 0)), shot},
		{"a malformed trace", 0, malformed, shot},
		{"edge to edge", 60, edge, shot},
		{"edge to edge behind another header", 0, append([]byte{60, 0, 0x1e, 4, 1, 2, 3, 4}, edge...), shot},
		{"behind a Fragment header", 44, append([]byte{60, 0, 0, 1, 1, 2, 3, 4}, edge...), shot},
		{"Hop-by-Hop behind a Fragment header", 44, append([]byte{0, 0, 0, 1, 1, 2, 3, 4}, hop(codec.NewTrace(123, codec.HopLimitNode, 1, 0))...), shot},
		{"Hop-by-Hop behind a Routing header", 43, append([]byte{0, 0, 4, 0, 0, 0, 0, 0}, hop(codec.NewTrace(123, codec.HopLimitNode, 1, 0))...), shot},
		{"a second Hop-by-Hop header", 0, append([]byte{0, 0, 0x1e, 4, 1, 2, 3, 4}, hop(codec.NewTrace(123, codec.HopLimitNode, 1, 0))...), shot},
		{"Hop-by-Hop behind a Destination and an Authentication header", 60, slices.Concat([]byte{51, 0, 0x1e, 4, 1, 2, 3, 4}, []byte{0, 4, 0, 0}, make([]byte, 20), edge), shot},
		{"Hop-by-Hop of others behind a Routing header", 43, append([]byte{0, 0, 4, 0, 0, 0, 0, 0}, experiment...), unspec},
		{"behind an atomic one and another", 0, slices.Concat([]byte{44, 0, 0x1e, 4, 1, 2, 3, 4}, []byte{60, 0, 0, 0, 1, 2, 3, 4}, edge), shot},
		{"behind an Authentication header", 51, slices.Concat([]byte{60, 4, 0, 0}, make([]byte, 20), edge), shot},
		{"behind a Mobility header", 135, append([]byte{60, 0, 1, 0, 0, 0, 0, 0}, edge...), shot},
		{"behind a HIP header and an Authentication header", 139, slices.Concat([]byte{51, 1}, make([]byte, 14), []byte{60, 4, 0, 0}, make([]byte, 20), edge), shot},
		{"behind a Shim6 header in a first fragment", 44, slices.Concat([]byte{140, 0, 0, 1, 1, 2, 3, 4}, []byte{60, 0, 0x80, 0, 0, 0, 0, 0}, edge), shot},
		{"a message of Mobile IPv6", 135, append([]byte{59, 0, 5, 0, 0, 0, 0, 0}, edge...), unspec},
		{"a message of HIP that goes on in the next fragment", 44, []byte{139, 0, 0, 1, 1, 2, 3, 4, 59, 200, 1, 0x21, 0, 0, 0, 0}, unspec},
		{"a message of Shim6 before UDP", 140, []byte{17, 0, 0x80, 0, 0, 0, 0, 0}, unspec},
		{"behind more headers than are read", 60, append(bytes.Repeat([]byte{60, 0, 0x1e, 4, 1, 2, 3, 4}, 9), edge...), shot},
		{"cut off in a first fragment", 44, []byte{60, 0, 0, 1, 1, 2, 3, 4, 17, 90, 1, 4, 0, 0, 0, 0}, shot},
		{"a first fragment of UDP", 44, []byte{17, 0, 0, 1, 1, 2, 3, 4}, unspec},
		{"a later fragment that looks so", 44, append([]byte{60, 0, 0, 9, 1, 2, 3, 4}, edge...), unspec},
	} {
		in := packet(test.first, test.headers, 10)
		for _, program := range []*ebpf.Program{b.objects.IoamIngress, b.objects.IoamEgress} {
			verdict, got := b.run(program, in, skb{From: 1})
			if verdict != test.want || verdict == unspec && !bytes.Equal(in, got) {
				t.Errorf("%s, %s: verdict %d, want %d", test.name, program, verdict, test.want)
			}
		}
	}
	if in, out := b.counted(ioamIoamCountIOAM_FROM_OUTSIDE), b.counted(ioamIoamCountIOAM_TO_OUTSIDE); in != 17 || out != 17 {
		t.Errorf("counted %d from outside and %d to it, want 17 each", in, out)
	}
}

// Times are this host's, in the configured format.
func TestTimesAreTold(t *testing.T) {
	b := newBench(t, aNode(full))
	headers := hop(codec.NewTrace(123, codec.Seconds|codec.Fraction|codec.TransitDelay, 1, 0))
	for clock, read := range map[string]func(codec.Node) int64{
		"posix": func(n codec.Node) int64 { return int64(n.Seconds)*1e9 + int64(n.Fraction)*1e3 },
		"ptp":   func(n codec.Node) int64 { return int64(n.Seconds)*1e9 + int64(n.Fraction) },
		"ntp":   func(n codec.Node) int64 { return (int64(n.Seconds)-2208988800)*1e9 + int64(n.Fraction)*1e9>>32 },
	} {
		d := aNode(full)
		d.Node.Clock = clock
		b.set(d)
		before := time.Now().UnixNano()
		_, got := b.run(b.objects.IoamEgress, packet(0, headers, 0), skb{From: 1})
		now := time.Now().UnixNano()
		h, err := codec.DecodeHeader(got[atOptions:])
		if err != nil {
			t.Fatal(err)
		}
		trace, err := codec.DecodeTrace(h.Options[0].Type, h.Options[0].Data)
		if err != nil || len(trace.Nodes) != 1 {
			t.Fatal(err, trace)
		}
		const step = 1000 // rounding of the coarsest format
		if at := read(trace.Nodes[0]); at < before-step || at > now {
			t.Errorf("%s: the packet came at %d, from %d to %d", clock, at, before, now)
		}
		if trace.Nodes[0].TransitDelay != codec.None32 {
			t.Errorf("%s: nobody knows when the packet came, and it took %d ns", clock, trace.Nodes[0].TransitDelay)
		}
	}
}

// The configured fraction of packets is encapsulated.
func TestAFractionIsChosen(t *testing.T) {
	const packets = 3000
	cpus := uint64(ebpf.MustPossibleCPU())
	b := newBench(t, aNode(full))
	for _, test := range []struct {
		sampling Sampling
		min, max uint64
	}{
		{Sampling{Kind: Every, K: 1, N: 1}, packets, packets},
		{Sampling{Kind: Every, K: 1, N: 100}, packets / 100, packets/100 + cpus}, // each CPU counts for itself
		{Sampling{Kind: Every, K: 3, N: 10}, packets * 3 / 10, packets*3/10 + 3*cpus},
		{Sampling{Kind: Chance, Part: 1}, packets, packets},
		{Sampling{Kind: Chance, Part: 0.5}, packets/2 - 300, packets/2 + 300}, // 11 standard deviations
		{Sampling{Kind: Chance, Part: 0}, 0, 0},
	} {
		b.again(aNode(full), aScope(Encapsulation{Options: []Option{aTrace}, Sampling: test.sampling}))
		for range packets {
			b.run(b.objects.IoamEgress, packet(0, nil, 0), skb{})
		}
		c, err := b.scopeCounts(3)
		if err != nil {
			t.Fatal(err)
		}
		if c.Packets != packets || c.Encapsulated < test.min || c.Encapsulated > test.max {
			t.Errorf("%s: %d of %d packets, want %d to %d", test.sampling, c.Encapsulated, c.Packets, test.min, test.max)
		}
	}
}

// Packets without space for options stay unchanged and are counted. Shadow mode changes no packet.
func TestWhatDoesNotFitIsLeftAlone(t *testing.T) {
	other, b := uint8(10), newBench(t, aNode(full))
	with := func(c Conditions) Encapsulation { return Encapsulation{Conditions: c} }
	long := append([]byte{17, 254}, make([]byte, 2038)...)
	for at := 2; at < len(long); at += 8 {
		copy(long[at:], []byte{0x1e, 4, 1, 2, 3, 4, 1, 0})
	}
	for _, test := range []struct {
		name string
		in   []byte
		with Encapsulation
		dark bool
		want ioamIoamScopeCounts
	}{
		{"fits exactly", packet(0, nil, 1500-48-40), Encapsulation{}, false, ioamIoamScopeCounts{Packets: 1, Octets: 1460, Encapsulated: 1}},
		{"one octet too long", packet(0, nil, 1500-48-39), Encapsulation{}, false, ioamIoamScopeCounts{Packets: 1, Octets: 1461, TooLong: 1}},
		{"a long header", packet(0, long, 0), Encapsulation{}, false, ioamIoamScopeCounts{Packets: 1, Octets: 2088, NoRoom: 1}},
		{"shadow", packet(0, nil, 0), Encapsulation{}, true, ioamIoamScopeCounts{Packets: 1, Octets: 48, Encapsulated: 1}},
		{"another protocol", packet(0, nil, 0), with(Conditions{Protocol: 6}), false, ioamIoamScopeCounts{}},
		{"its protocol", packet(0, nil, 0), with(Conditions{Protocol: 17}), false, ioamIoamScopeCounts{Packets: 1, Octets: 48, Encapsulated: 1}},
		{"another port", packet(0, nil, 0), with(Conditions{Port: 53}), false, ioamIoamScopeCounts{}},
		{"its port", packet(0, nil, 0), with(Conditions{Port: 2000}), false, ioamIoamScopeCounts{Packets: 1, Octets: 48, Encapsulated: 1}},
		{"another DSCP", packet(0, nil, 0), with(Conditions{DSCP: &other}), false, ioamIoamScopeCounts{}},
	} {
		test.with.Options = []Option{aTrace}
		scope := aScope(test.with)
		scope.Shadow = test.dark
		b.again(aNode(full), scope)
		_, got := b.run(b.objects.IoamEgress, test.in, skb{})
		c, err := b.scopeCounts(3)
		if err != nil {
			t.Fatal(err)
		}
		c.Turn = 0
		if c != test.want {
			t.Errorf("%s: %+v, want %+v", test.name, c, test.want)
		}
		if test.want.Encapsulated == 0 || test.dark {
			if !bytes.Equal(got, test.in) {
				t.Errorf("%s: the packet was changed", test.name)
			}
		}
	}
}

// An option type that forbids changes en route (RFC 8200 section 4.2) keeps its trace and proof:
// transit leaves them unchanged, and the end removes them without node data.
func TestImmutableOptionsStayUnchanged(t *testing.T) {
	exit := full
	exit.ID, exit.Remove = 124, true
	b := newBench(t, aNode(full, exit))
	trace := func(namespace uint16, flags codec.Flags) codec.Trace {
		trace := codec.NewTrace(namespace, codec.HopLimitNode, 3, 0)
		trace.Flags = flags
		return trace
	}
	immutable := func(headers []byte) []byte {
		h, err := codec.DecodeHeader(headers)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range h.Options {
			headers[o.Offset] = codec.Immutable
		}
		return headers
	}
	for _, test := range []struct {
		name    string
		headers []byte
	}{
		{"a trace", hop(trace(123, 0))},
		{"an active trace", hop(trace(123, codec.Active))},
		{"two traces", hop(trace(123, 0), trace(0, 0))},
		{"a proof", hop(codec.Proof{Namespace: 123, PacketID: 4})},
		{"a trace beside an unknown option", hop(trace(9, 0), trace(123, 0))},
	} {
		in := packet(0, immutable(test.headers), 10)
		if verdict, got := b.run(b.objects.IoamEgress, in, skb{From: 1}); verdict != unspec || !bytes.Equal(got, in) {
			t.Errorf("%s: verdict %d\n%x became\n%x", test.name, verdict, in, got)
		}
	}
	if n := b.counted(ioamIoamCountIOAM_RECORDED); n != 0 {
		t.Errorf("%d traces were recorded", n)
	}
	verdict, got := b.run(b.objects.IoamIngress, packet(0, immutable(hop(trace(124, codec.Active))), 10), skb{})
	if verdict != unspec || !bytes.Equal(got, packet(0, nil, 10)) {
		t.Errorf("at the end: verdict %d, %x", verdict, got)
	}
	if n := b.counted(ioamIoamCountIOAM_RECORDED); n != 0 {
		t.Errorf("the end recorded %d traces", n)
	}
}
