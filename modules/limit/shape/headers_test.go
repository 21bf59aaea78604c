// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"net/netip"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weir/bpf/headers"
	"weir/core/match"
	"weir/internal/direction"
	"weir/kernel/clock"
)

// Only TCP senders with packets delayed beyond the mark threshold are notified, also behind
// extension headers.
func TestTCPIsKnownBehindExtensionHeaders(t *testing.T) {
	const child, ethernet = 3, 14
	b, l := newBench(t), long(1, 0)
	b.assign(match.Assignments{match.OfPrefix(netip.MustParsePrefix("2001:db8::2/128")): child})
	b.set(child, l)
	b.flows(shapeShaperFlow{FinishNs: clock.Now() + int64(1000*time.Hour)}) // none departs ahead of the queue
	b.state(child, l.Mark+10*time.Hour, 0, 2)
	for _, c := range append(headers.Chains(), headers.Chain{Name: "no extension header"}) {
		for _, protocol := range []byte{unix.IPPROTO_TCP, unix.IPPROTO_UDP} {
			f := datagram(one6, to6, 500)
			f[ethernet+6] = protocol
			f = headers.Insert(f, c.Headers...)
			if _, passes := b.charge(f); !passes {
				t.Fatalf("%s: the packet was dropped", c.Name)
			}
			want := 0
			if upper := headers.Read(f[ethernet:]); upper.Protocol == unix.IPPROTO_TCP && !upper.Later {
				want = 1
			}
			if got := b.notices(); got != want {
				t.Errorf("%s before protocol %d: %d senders are to be notified, want %d", c.Name, protocol, got, want)
			}
		}
	}
}

// The kernel counts the Hop-by-Hop header that marks a BIG TCP packet in every segment, although it
// is in none.
func TestTheHeaderOfBigTCPIsNotCharged(t *testing.T) {
	const child, ethernet, segments, wire = 3, 14, 40, 60_000
	b, l := newBench(t), long(1, 0)
	b.assign(match.Assignments{match.OfPrefix(netip.MustParsePrefix("2001:db8::2/128")): child})
	b.set(child, l)
	for _, c := range []struct {
		name string
		mark []byte
		want uint64
	}{
		{"the mark", []byte{0, 0, 0xc2, 4, 0, 1, 0x86, 0xa0}, wire - 8*segments},
		{"another option", []byte{0, 0, 0x1e, 4, 0, 1, 0x86, 0xa0}, wire},
	} {
		before, err := b.p.counters(keyOf(child, direction.Egress))
		if err != nil {
			t.Fatal(err)
		}
		f := datagram(one6, to6, 500)
		f[ethernet+6] = unix.IPPROTO_TCP
		f = headers.Insert(f, headers.Header{Kind: headers.HopByHop, Octets: c.mark})
		f[ethernet+4], f[ethernet+5] = 0, 0
		in := context{WireLen: wire, GsoSegs: segments, GsoSize: 10}
		if verdict, err := b.p.charge.Run(&ebpf.RunOptions{Data: f, Context: &in, ContextOut: &context{}, DataOut: make([]byte, len(f)+64)}); err != nil || verdict == 2 {
			t.Fatalf("%s: verdict %d, %v", c.name, verdict, err)
		}
		after, err := b.p.counters(keyOf(child, direction.Egress))
		if err != nil {
			t.Fatal(err)
		}
		if got := after.Octets - before.Octets; got != c.want {
			t.Errorf("%s: %d bytes were charged, want %d", c.name, got, c.want)
		}
	}
}

// notices counts and clears the stored notices.
func (b *bench) notices() (n int) {
	b.t.Helper()
	const flows = shapeShaperFormatSHAPER_FLOWS
	all, none := make([]shapeShaperNotice, flows), make([]shapeShaperNotice, flows)
	var at ebpf.MapBatchCursor
	if got, err := b.p.maps.DelayNotices.BatchLookup(&at, make([]uint32, flows), all, nil); got != int(flows) {
		b.t.Fatal(got, err)
	}
	for _, notice := range all {
		if notice.FromNs != 0 {
			n++
		}
	}
	if _, err := b.p.maps.DelayNotices.BatchUpdate(allFlows(), none, nil); err != nil {
		b.t.Fatal(err)
	}
	return n
}

// allFlows returns all keys of the per-flow maps.
func allFlows() []uint32 {
	keys := make([]uint32, shapeShaperFormatSHAPER_FLOWS)
	for i := range keys {
		keys[i] = uint32(i)
	}
	return keys
}
