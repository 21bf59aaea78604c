// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/cilium/ebpf"

	"weir/core/match"
	"weir/core/module"
	"weir/core/policy"
	"weir/core/selector"
	"weir/kernel/rtnl"
	"weir/kernel/testutil"
	"weir/modules/ioam/codec"

	"net/netip"
)

const (
	shot     = 2
	unspec   = 0xffff_ffff // TC_ACT_UNSPEC
	ethernet = 14
	ip6Size  = 40
)

// skb is the context of a test run; its settable fields have names.
type skb struct {
	_       [36]byte
	From    uint32 // ingress_ifindex
	Ifindex uint32
	_       [108]byte
	Tstamp  uint64
	_       [4]byte
	Segs    uint32 // gso_segs
	_       [8]byte
	GSOSize uint32
	Stamped uint8 // tstamp_type
	_       [11]byte
}

// bench holds a node's programs in a namespace with only the loopback device, ifindex 1.
type bench struct {
	*dataPlane
	t testing.TB
}

func newBench(t testing.TB, want Config, scopes ...module.Bound) *bench {
	t.Helper()
	testutil.NeedRoot(t)
	ns := testutil.Namespace(t, "ioam")
	conn, err := rtnl.Open(ns)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetMTU("lo", 1500); err != nil {
		t.Fatal(err)
	}
	d, err := load(ns, "", sizes{scopes: 64, numbers: 2 * MaxEncapsulations, sent: defaultFlows, received: defaultFlows, contexts: defaultFlows, proofs: 16})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.close() })
	b := &bench{d, t}
	b.set(want, scopes...)
	return b
}

func (b *bench) set(want Config, scopes ...module.Bound) {
	b.t.Helper()
	if err := b.setNamespaces(want.Namespaces); err != nil {
		b.t.Fatal(err)
	}
	for _, i := range want.Interfaces {
		p := place{Interface: i}
		p.Index, p.MTU, p.Header = 1, 1500, ethernet
		if err := b.setInterfaces([]place{p}); err != nil {
			b.t.Fatal(err)
		}
	}
	kinds, err := b.setScopes(module.State{}, module.State{Scopes: scopes}, match.Key{}, want)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := b.setNode(want, kinds, 1<<30); err != nil {
		b.t.Fatal(err)
	}
}

// again applies another state, and clears the counters of aScope.
func (b *bench) again(want Config, scopes ...module.Bound) {
	b.t.Helper()
	b.set(want, scopes...)
	if err := b.objects.IoamScopeCounted.Put(uint32(3), make([]ioamIoamScopeCounts, ebpf.MustPossibleCPU())); err != nil {
		b.t.Fatal(err)
	}
}

// run sends a packet through a program and returns the verdict and the packet after it.
func (b *bench) run(program *ebpf.Program, packet []byte, context skb) (uint32, []byte) {
	b.t.Helper()
	if context.Ifindex == 0 {
		context.Ifindex = 1
	}
	out := make([]byte, len(packet)+4096)
	options := &ebpf.RunOptions{Data: packet, DataOut: out, Context: context, ContextOut: &skb{}, Repeat: 1}
	var verdict uint32
	err := b.ns.Do(func() (err error) { verdict, err = program.Run(options); return err })
	if err != nil {
		b.t.Fatalf("run: %v", err)
	}
	return verdict, options.DataOut
}

func (b *bench) counted(what ioamIoamCount) (sum uint64) {
	b.t.Helper()
	var all []uint64
	if err := b.objects.IoamCounted.Lookup(uint32(what), &all); err != nil {
		b.t.Fatal(err)
	}
	for _, n := range all {
		sum += n
	}
	return sum
}

// packet returns an Ethernet frame with IPv6, these extension headers (the first is of type first)
// and a UDP datagram.
func packet(first byte, headers []byte, payload int) []byte {
	udp := make([]byte, 8+payload)
	binary.BigEndian.PutUint16(udp, 1000)
	binary.BigEndian.PutUint16(udp[2:], 2000)
	binary.BigEndian.PutUint16(udp[4:], uint16(len(udp)))
	for i := range payload {
		udp[8+i] = byte(i)
	}
	if len(headers) == 0 {
		first = 17
	}
	p := make([]byte, ethernet, ethernet+ip6Size+len(headers)+len(udp))
	p[12], p[13] = 0x86, 0xdd
	p = append(p, 0x60, 0, 0, 0)
	p = binary.BigEndian.AppendUint16(p, uint16(len(headers)+len(udp)))
	p = append(p, first, 61)
	p = append(p, netip.MustParseAddr("2001:db8:1::1").AsSlice()...)
	p = append(p, netip.MustParseAddr("2001:db8:2::2").AsSlice()...)
	return append(append(p, headers...), udp...)
}

// hop returns a Hop-by-Hop header before UDP.
func hop(options ...codec.Body) []byte { return codec.AppendHeader(nil, 17, options...) }

// atOptions is the offset of extension headers.
const atOptions = ethernet + ip6Size

// aNode returns a node with one interface, 1, with both roles.
func aNode(namespaces ...Namespace) Config {
	d := Config{Node: Node{ID: 0x010203, Wide: 0x0a0b0c0d0e0f10, Clock: "posix", Postcards: 1000}, Namespaces: map[uint16]Namespace{},
		Interfaces: []Interface{{Name: "lo", ID: 11, Wide: 0x11223344, Ingress: true, Egress: true}}}
	for _, n := range namespaces {
		d.Namespaces[n.ID] = n
	}
	return d
}

// aScope encapsulates all packets to 2001:db8:2::/48.
func aScope(e Encapsulation) module.Bound {
	if e.Sampling.Kind == "" {
		e.Sampling = Sampling{Kind: Every, K: 1, N: 1}
	}
	s := policy.Scope{Name: "a", Selector: policy.Selector{Kind: "prefix"}, Treatments: policy.Treatments{Name: &Treatment{Encapsulation: &e}}}
	return module.Bound{Scope: s, Index: 3, Treatment: s.Treatments[Name], Binding: selector.Binding{Key: match.OfPrefix(netip.MustParsePrefix("2001:db8:2::/48"))}}
}

var full = Namespace{ID: 123, Data: 0xcafe0001, Wide: 0xdeadbeef00000002, Schema: 0x777, State: []byte("weir's state")}

// expected returns the data that aNode adds to packets in and out of interface 1.
func expected(n Namespace) codec.Node {
	node := codec.Node{HopLimit: 61, ID: 0x010203, Ingress: 11, Egress: 11, TransitDelay: codec.None32, Data: n.Data, QueueDepth: 0,
		WideHopLimit: 61, WideID: 0x0a0b0c0d0e0f10, WideIngress: 0x11223344, WideEgress: 0x11223344, WideData: n.Wide, Occupancy: codec.None32,
		Schema: n.Schema, Opaque: n.State}
	for i := range node.Undefined {
		node.Undefined[i] = codec.None32
	}
	return node
}

// deterministic has the fields that do not depend on the time.
const deterministic = codec.TraceType(0xfffffe) &^ (codec.Seconds | codec.Fraction | codec.QueueDepth | codec.Checksum)

// A transit node's data equals the codec's, field by field, and all other bytes stay unchanged.
func TestTransitRecordsWhatTheCodecDoes(t *testing.T) {
	b := newBench(t, aNode(full))
	r := testutil.Rand(t)
	for range 500 {
		fields := codec.TraceType(r.Uint32()) & deterministic
		trace := codec.NewTrace(123, fields, 0, 0)
		trace.Remaining = uint8(r.IntN(50))
		if r.IntN(8) == 0 {
			trace.Flags = codec.Overflow
		}
		headers := hop(codec.NewTrace(9, codec.HopLimitNode, 1, 0), trace)
		in := packet(0, headers, 20)
		want := bytes.Clone(in)
		h, err := codec.DecodeHeader(want[atOptions:])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := codec.Record(h.Options[1].Data, expected(full)); err != nil {
			t.Fatal(err)
		}
		verdict, got := b.run(b.objects.IoamEgress, in, skb{From: 1})
		if verdict != unspec || !bytes.Equal(got, want) {
			t.Fatalf("fields %#x, remaining %d: verdict %d\n%x, want\n%x", fields, trace.Remaining, verdict, got, want)
		}
	}
	if b.counted(ioamIoamCountIOAM_UNKNOWN) != 500 || b.counted(ioamIoamCountIOAM_RECORDED) == 0 || b.counted(ioamIoamCountIOAM_OVERFLOW) == 0 || b.counted(ioamIoamCountIOAM_FULL) == 0 {
		t.Error("not all outcomes were counted")
	}
}

// A trace without fields has space for a node that adds nothing.
func TestATraceWithoutFieldsStaysAsItIs(t *testing.T) {
	b := newBench(t, aNode(full))
	trace := codec.NewTrace(123, 0, 0, 0)
	trace.Remaining = 2
	in := packet(0, hop(trace), 200)
	if verdict, got := b.run(b.objects.IoamEgress, in, skb{From: 1}); verdict != unspec || !bytes.Equal(got, in) {
		t.Errorf("verdict %d, %x became %x", verdict, in, got)
	}
}

// A truncated header gets no node data.
func TestATraceThatIsCutOffStaysAsItIs(t *testing.T) {
	b := newBench(t, aNode(full))
	in := packet(0, hop(codec.NewTrace(123, codec.HopLimitNode, 10, 0)), 0)
	in = in[:len(in)-8-4] // remove the datagram, and the last word of the trace
	if verdict, got := b.run(b.objects.IoamEgress, in, skb{From: 1}); verdict != unspec || !bytes.Equal(got, in) {
		t.Errorf("verdict %d, %x became %x", verdict, in, got)
	}
}

// Options behind several Routing headers end like others.
func TestRoutingHeadersHideNothing(t *testing.T) {
	exit := full
	exit.Remove = true
	b := newBench(t, aNode(exit))
	routing := func(next byte) []byte { return []byte{next, 0, 0, 0, 0, 0, 0, 0} }
	edge := codec.AppendHeader(nil, 17, codec.Edge{Namespace: 123, Fields: codec.Sequence32})
	in := packet(43, slices.Concat(routing(43), routing(60), edge), 10)
	want := packet(43, slices.Concat(routing(43), routing(17)), 10)
	if verdict, got := b.run(b.objects.IoamIngress, in, skb{}); verdict != unspec || !bytes.Equal(got, want) {
		t.Errorf("verdict %d, %x, want %x", verdict, got, want)
	}
}
