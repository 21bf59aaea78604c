// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"encoding/binary"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weir/core/match"
	"weir/internal/direction"
	"weir/kernel/clock"
	"weir/kernel/testutil"
)

// bench runs delay_charge on packets without a qdisc. The timestamp is the result.
type bench struct {
	t testing.TB
	p *programs
}

func newBench(t testing.TB) *bench {
	t.Helper()
	testutil.NeedRoot(t)
	p, err := load(filepath.Join(testutil.BPFFS(t), "delay"), 8)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.close() })
	return &bench{t, p}
}

// long returns a shaper with delays far longer than the run time of a test.
func long(weight int, parent uint32) Shaper {
	const hours = time.Hour
	return Shaper{Direction: direction.Egress, Parent: parent, Weight: weight, Rate: 64_000, Cost: 1e9 << 24 / 8000, Burst: time.Millisecond, Mark: 100 * hours,
		Horizon: 200 * hours, SmallOctets: 128}
}

func (b *bench) set(scope int, l Shaper) {
	b.t.Helper()
	if err := b.p.set(keyOf(scope, direction.Egress), l.config(Fq)); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) assign(all match.Assignments) {
	b.t.Helper()
	if err := b.p.setScopes(nil, Work{Assignments: all}); err != nil {
		b.t.Fatal(err)
	}
}

// state sets a shaper's queue, the end of its occupied slots, and its flow count.
func (b *bench) state(scope int, queue, ahead time.Duration, flows uint32) {
	b.t.Helper()
	b.stateOf(keyOf(scope, direction.Egress), queue, ahead, flows)
}

func (b *bench) stateOf(key uint32, queue, ahead time.Duration, flows uint32) {
	b.t.Helper()
	now := clock.Now()
	s := shapeShaperState{FinishNs: now + int64(queue), IntervalStartNs: uint64(now) + uint64(1e15), ShareNs: 1 << 60, Flows: flows << shapeShaperFormatSHAPER_FLOWS_SHIFT}
	for i := range s.AheadNs[0] {
		s.AheadNs[0][i] = now + int64(ahead) // full, as far as the slot ends before
	}
	s.AheadNs[1] = s.AheadNs[0]
	if err := b.p.maps.DelayStates.Put(key, &s); err != nil {
		b.t.Fatal(err)
	}
}

// flows sets the queue of every flow.
func (b *bench) flows(flow shapeShaperFlow) {
	b.t.Helper()
	for i := range b.p.maps.DelayFlows.MaxEntries() {
		if err := b.p.maps.DelayFlows.Put(i, &flow); err != nil {
			b.t.Fatal(err)
		}
	}
}

// datagram returns a UDP datagram of the given bytes with the Ethernet header.
func datagram(from, to netip.AddrPort, octets int) []byte {
	f := make([]byte, octets)
	ip := f[14:]
	if from.Addr().Is4() {
		binary.BigEndian.PutUint16(f[12:], 0x0800)
		ip[0], ip[8], ip[9] = 0x45, 64, unix.IPPROTO_UDP
		binary.BigEndian.PutUint16(ip[2:], uint16(octets-14))
		copy(ip[12:], from.Addr().AsSlice())
		copy(ip[16:], to.Addr().AsSlice())
		ip = ip[20:]
	} else {
		binary.BigEndian.PutUint16(f[12:], 0x86dd)
		ip[0], ip[6], ip[7] = 0x60, unix.IPPROTO_UDP, 64
		binary.BigEndian.PutUint16(ip[4:], uint16(octets-54))
		copy(ip[8:], from.Addr().AsSlice())
		copy(ip[24:], to.Addr().AsSlice())
		ip = ip[40:]
	}
	binary.BigEndian.PutUint16(ip, from.Port())
	binary.BigEndian.PutUint16(ip[2:], to.Port())
	binary.BigEndian.PutUint16(ip[4:], uint16(len(ip)))
	return f
}

const loopback = 1 // device of program test runs

// moment is a time from now on.
func moment(t testing.TB, after time.Duration) int64 {
	return clock.Now() + int64(after)
}

// segment returns a packet with the given protocol number.
func segment(protocol byte, octets int) []byte {
	f := datagram(one4, to4, octets)
	f[14+9] = protocol
	return f
}

// context is struct __sk_buff up to the field after tstamp.
type context struct {
	_       [38]uint32
	Tstamp  uint64
	WireLen uint32
	GsoSegs uint32
	_       uint64
	GsoSize uint32
	_       [3]uint32
}

// charge runs the program on a frame and returns its delay and whether it passes.
func (b *bench) charge(f []byte) (delay time.Duration, passes bool) {
	b.t.Helper()
	return b.chargeWire(f, len(f))
}

// chargeWire is charge for a GSO frame with the given bytes on the wire.
func (b *bench) chargeWire(f []byte, wire int) (delay time.Duration, passes bool) {
	b.t.Helper()
	in, out := context{WireLen: uint32(wire)}, context{}
	verdict, err := b.p.charge.Run(&ebpf.RunOptions{Data: f, Context: &in, ContextOut: &out, DataOut: make([]byte, len(f)+64)})
	if err != nil {
		b.t.Fatal(err)
	}
	if out.Tstamp != 0 {
		delay = time.Duration(int64(out.Tstamp) - clock.Now())
	}
	return delay, verdict != 2
}

var (
	one4, two4, to4 = netip.MustParseAddrPort("10.9.0.1:7"), netip.MustParseAddrPort("10.9.0.1:8"), netip.MustParseAddrPort("10.9.0.2:9")
	one6, to6       = netip.MustParseAddrPort("[2001:db8::1]:7"), netip.MustParseAddrPort("[2001:db8::2]:9")
)

// At long's rate a byte takes 125 µs.
const perByte = 125 * time.Microsecond

// near reports whether a delay equals the expected one, within the run time of a test.
func near(got, want time.Duration) bool { return got <= want+time.Minute && got > want-time.Hour/2 }

// Packets of a flow above its share depart after the shaper's queue, packets of other flows within
// their share, and all are charged.
func TestOthersDepartAhead(t *testing.T) {
	b := newBench(t)
	l := long(1, 0)
	b.assign(match.Assignments{match.OfPrefix(netip.MustParsePrefix("10.9.0.2/32")): 3, match.OfPrefix(netip.MustParsePrefix("2001:db8::/32")): 3})
	b.set(3, l)
	b.state(3, 0, 0, 2)
	const queue = 60_000 * 1400 * perByte
	for _, test := range []struct {
		name         string
		from, to     netip.AddrPort
		octets, many int
		want         time.Duration // of the last
	}{
		{"one that sends on", one4, to4, 1400, 60_000, queue},
		{"another one beside it", two4, to4, 1000, 1, 0},
		{"IPv6 beside it", one6, to6, 100, 1, 0},
		{"the one that sends on", one4, to4, 1000, 1, queue},
	} {
		f, got, passes := datagram(test.from, test.to, test.octets), time.Duration(0), false
		for range test.many {
			got, passes = b.charge(f)
		}
		if !passes || !near(got, test.want) {
			t.Errorf("%s: passes %t with %v, want %v", test.name, passes, got, test.want)
		}
	}
	c, err := b.p.counters(keyOf(3, direction.Egress))
	if err != nil || c.Packets != 60_003 || c.Ahead != 2 {
		t.Errorf("counted %+v (%v)", c, err)
	}
	if want := queue + (2*1000+100)*perByte; !near(c.Delay, want) {
		t.Errorf("the queue is %v, want %v", c.Delay, want)
	}
}

// With any flows, no packet departs later than in a FIFO, and packets ahead of the queue do not
// exceed the rate.
func TestTheQueueIsABound(t *testing.T) {
	b := newBench(t)
	l := long(1, 0)
	b.assign(match.Assignments{match.OfPrefix(netip.MustParsePrefix("10.9.0.2/32")): 3})
	b.set(3, l)
	random, first := testutil.Rand(t), clock.Now()
	const queue = time.Hour // so that it does not run empty
	b.state(3, queue, 0, 4)
	charged := time.Duration(queue)
	ahead := 0
	for range 3000 {
		port := uint16(max(0, random.IntN(8)-3)) // the first one sends half of all
		octets := 60 + random.IntN(1400)
		got, passes := b.charge(datagram(netip.AddrPortFrom(one4.Addr(), 1000+port), to4, octets))
		departs := time.Duration(clock.Now()-first) + got
		if !passes || departs > charged+time.Minute {
			t.Fatalf("passes %t and departs at %v, behind %v", passes, departs, charged)
		}
		if departs < charged-time.Minute {
			ahead++
		}
		charged += time.Duration(octets) * perByte
	}
	if ahead == 0 {
		t.Error("nothing departed ahead")
	}
}

// A packet is charged once to each of its scopes and their parents, by weight. A drop by one shaper
// refunds the others.
func TestParentsAreCharged(t *testing.T) {
	b := newBench(t)
	wide, group := long(3, keyOf(5, direction.Egress)), long(1, 0)
	narrow := wide
	b.assign(match.Assignments{match.OfPrefix(netip.MustParsePrefix("10.9.0.2/32")): 4, match.OfPrefix(netip.MustParsePrefix("2001:db8::/32")): 7})
	for scope, l := range map[int]Shaper{4: wide, 7: narrow, 5: group} {
		b.set(scope, l)
	}
	for range 10 {
		for _, f := range [][]byte{datagram(one4, to4, 1000), datagram(one6, to6, 500)} {
			if _, passes := b.charge(f); !passes {
				t.Fatal("dropped")
			}
		}
	}
	octets := func(scope int) uint64 {
		c, err := b.p.counters(keyOf(scope, direction.Egress))
		if err != nil {
			t.Fatal(err)
		}
		return c.Octets
	}
	if a, c, g := octets(4), octets(7), octets(5); a != 10_000 || c != 5000 || g != 15_000 {
		t.Errorf("charged %d, %d and the group %d", a, c, g)
	}
	before, err := b.p.counters(keyOf(4, direction.Egress))
	if err != nil {
		t.Fatal(err)
	}
	b.state(5, 1000*time.Hour, 1000*time.Hour, 1)
	if _, passes := b.charge(datagram(one4, to4, 1000)); passes {
		t.Error("passes beyond the group's horizon")
	}
	after, err := b.p.counters(keyOf(4, direction.Egress))
	if err != nil || after.Octets != before.Octets || after.Delay > before.Delay {
		t.Errorf("the child was charged %d bytes, had %d; queue %v, had %v (%v)", after.Octets, before.Octets, after.Delay, before.Delay, err)
	}
}

// A child's fair share does not depend on the number of its siblings' flows.
func TestChildrenShareIndependentOfTheirFlows(t *testing.T) {
	for name, parent := range map[string]uint32{"group": keyOf(5, direction.Egress), "device": loopback} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.assign(match.Assignments{match.OfPrefix(netip.MustParsePrefix("10.9.0.2/32")): 4, match.OfPrefix(netip.MustParsePrefix("2001:db8::/32")): 7})
			b.set(4, long(1, parent))
			b.set(7, long(1, parent))
			if err := b.p.set(parent, long(1, 0).config(Fq)); err != nil {
				t.Fatal(err)
			}
			b.stateOf(parent, 10*time.Second, 0, 2)
			for port := range uint16(3000) {
				if _, passes := b.charge(datagram(netip.AddrPortFrom(one4.Addr(), port+1), to4, 1400)); !passes {
					t.Fatal("dropped")
				}
			}
			if got, passes := b.charge(datagram(one6, to6, 100)); !passes || !near(got, 0) {
				t.Errorf("passes %t with %v beside a sibling of 3000 flows", passes, got)
			}
		})
	}
}

// A child never shares its queue with a flow.
func TestChildrenShareNoQueueWithFlows(t *testing.T) {
	b := newBench(t)
	b.assign(match.Assignments{match.OfPrefix(netip.MustParsePrefix("2001:db8::/32")): 7})
	b.set(7, long(1, keyOf(5, direction.Egress)))
	b.set(5, long(1, 0))
	b.state(5, time.Hour, 0, 2)
	b.flows(shapeShaperFlow{FinishNs: clock.Now() + int64(100*time.Hour)})
	if got, passes := b.charge(datagram(one6, to6, 100)); !passes || !near(got, 0) {
		t.Errorf("passes %t with %v", passes, got)
	}
}
