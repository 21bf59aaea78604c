// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"weir/core/match"
	"weir/internal/direction"
	"weir/kernel/clock"
	"weir/kernel/testutil"
)

// children are scopes (IPv6 prefixes) with weights, below a group with a long queue. They depart
// within their fair shares, each by its own clock.
type children struct {
	*bench
	shaper  Shaper
	weights []int
	begun   int64 // CLOCK_MONOTONIC
}

const (
	group    = 5
	standing = time.Hour // the group's queue; it drops beyond two
	slowest  = 12_500 * time.Microsecond
)

func newChildren(t *testing.T, b *bench, weights ...int) *children {
	t.Helper()
	c := &children{bench: b, shaper: long(1, 0), weights: weights}
	c.shaper.Rate, c.shaper.Cost, c.shaper.Mark, c.shaper.Horizon = 640, uint64(slowest)<<24, time.Hour, 2*time.Hour
	all := match.Assignments{}
	for i := range weights {
		all[match.OfPrefix(netip.PrefixFrom(c.address(i), 128))] = group + 1 + i
	}
	c.assign(all)
	flows := 0
	for i, weight := range weights {
		l := long(weight, keyOf(group, direction.Egress)) // not held by itself
		c.set(group+1+i, l)
		c.state(group+1+i, 0, 0, 0)
		flows += weight
	}
	c.set(group, c.shaper)
	c.begun = clock.Now()
	c.state(group, standing, 0, uint32(flows))
	return c
}

func (c *children) address(i int) netip.Addr {
	return netip.AddrFrom16([16]byte{0: 0x20, 1: 1, 15: byte(i + 1)})
}

func (c *children) slot() time.Duration { return 1 << c.shaper.slotShift() }

// sends is when a packet of a child departs, of so many octets on the wire, from the beginning on.
func (c *children) sends(i, octets int) time.Duration {
	c.t.Helper()
	f := datagram(one6, netip.AddrPortFrom(c.address(i), 9), min(octets, 1400))
	after, passes := c.chargeWire(f, octets)
	if !passes {
		c.t.Fatalf("child %d: dropped", i)
	}
	return time.Duration(clock.Now()-c.begun) + after
}

// A child's burst within its share does not depart at once, so its siblings keep their departure
// times.
func TestABurstDoesNotDelaySiblings(t *testing.T) {
	c := newChildren(t, newBench(t), 1, 1)
	for range 90 {
		c.sends(0, 1400)
	}
	for i := range 50 {
		own := time.Duration(i) * 2 * 1400 * slowest // at half of the rate
		if got := c.sends(1, 1400); got > own+c.slot()+time.Minute {
			t.Fatalf("packet %d departs after %v, its own time is %v", i, got, own)
		}
	}
}

// If bursts have filled the next slots of one kind, an isolated small packet uses a slot of the
// other kind, and is charged to both.
func TestSmallPacketsUseTheFirstFreeSlot(t *testing.T) {
	b := newBench(t)
	b.assign(match.Assignments{match.OfPrefix(netip.MustParsePrefix("10.9.0.2/32")): 3})
	b.set(3, long(1, 0))
	const taken, queue = time.Hour, 3 * time.Hour
	for _, test := range []struct {
		name          string
		others, paced time.Duration // end of the occupied slots
		octets        int
		waits         time.Duration // departure of the flow's last packet
		want          time.Duration
	}{
		{"a large one", taken, 0, 1000, 0, taken},
		{"a small one", taken, 0, 100, 0, 0},
		{"a small one, and paced flows' slots are taken too", taken, taken, 100, 0, taken},
		{"a small one behind others of its flow", taken, 0, 100, time.Minute, taken},
		{"a small one, and others' slots are full", queue, 0, 100, 0, queue},
	} {
		b.flows(shapeShaperFlow{DepartureNs: moment(t, test.waits)})
		b.state(3, queue, test.others, 2)
		b.change(3, func(s *shapeShaperState) {
			for i := range s.AheadNs[1] {
				s.AheadNs[1][i] += int64(test.paced - test.others)
			}
		})
		if got, passes := b.charge(datagram(one4, to4, test.octets)); !passes || !near(got, test.want) {
			t.Errorf("%s: passes %t with %v, want %v", test.name, passes, got, test.want)
		}
	}
}

// Small packets of many flows depart ahead of the queue at the rate at most.
func TestSmallPacketsAheadKeepTheRate(t *testing.T) {
	const octets, each = 100, 100 * slowest
	b, l := newBench(t), long(1, 0)
	l.Rate, l.Cost, l.Horizon = 640, uint64(slowest)<<24, 4*time.Hour
	slot := time.Duration(1) << l.slotShift()
	b.assign(match.Assignments{match.OfPrefix(netip.MustParsePrefix("10.9.0.2/32")): 3})
	b.set(3, l)
	b.state(3, standing, 0, 2)
	ahead := 0
	for port := range uint16(3 * standing / each) {
		got, passes := b.charge(datagram(netip.AddrPortFrom(one4.Addr(), port+1), to4, octets))
		if !passes {
			t.Fatal("dropped")
		}
		if got < standing-time.Minute {
			ahead++
		}
	}
	if maximum := int((standing + 2*slot) / each); ahead > maximum || ahead < maximum/2 {
		t.Errorf("%d packets depart ahead, want at most %d", ahead, maximum)
	}
}

// change modifies the state of a scope's shaper.
func (b *bench) change(scope int, how func(*shapeShaperState)) {
	b.t.Helper()
	var s shapeShaperState
	key := keyOf(scope, direction.Egress)
	if err := b.p.maps.DelayStates.Lookup(key, &s); err != nil {
		b.t.Fatal(err)
	}
	how(&s)
	if err := b.p.maps.DelayStates.Put(key, &s); err != nil {
		b.t.Fatal(err)
	}
}

// Each packet departs by the earlier of two times: the end of the full slots after its child's own
// clock, or the end of the FIFO. No slot holds more than its link time.
func TestChildrenDepartByTheirOwnClocks(t *testing.T) {
	b, random := newBench(t), testutil.Rand(t)
	for round := range 20 {
		weights := make([]int, 2+random.IntN(4))
		sum := 0
		for i := range weights {
			weights[i] = 1 + random.IntN(5)
			sum += weights[i]
		}
		c := newChildren(t, b, weights...)
		largest := 1400
		if round%4 == 0 {
			largest = 40_000 // exceeds a slot
		}
		own, queue := make([]time.Duration, len(weights)), time.Duration(standing)
		taken := map[int64]time.Duration{}
		longest := time.Duration(0)
		for queue < standing+40*time.Minute {
			i := random.IntN(len(weights))
			for range 1 + random.IntN(60) {
				octets := 1400
				if random.IntN(20) == 0 {
					octets = 1 + max(128, random.IntN(largest)) // smaller ones go by either slots
				}
				if queue > standing+50*time.Minute {
					break
				}
				cost := time.Duration(octets) * slowest
				longest = max(longest, cost)
				got := c.sends(i, octets)
				// Siblings occupy their shares and one packet each beyond it. A run of full
				// slots ends when the child's own share of it fits these packets.
				full := time.Duration(len(weights)-1) * longest * time.Duration(sum) / time.Duration(weights[i])
				if latest := min(own[i]+full+longest+2*c.slot(), queue); got > latest+time.Minute {
					t.Fatalf("weights %v, child %d: departs after %v, its own time is %v, the queue's end %v", weights, i, got, own[i], queue)
				}
				if got < queue-time.Minute {
					for at, rest := got, cost; rest > 0; { // link time from its departure on
						n := (int64(at) + c.begun) >> c.shaper.slotShift()
						end := time.Duration((n+1)<<c.shaper.slotShift() - c.begun)
						part := min(rest, end-at)
						taken[n] += part
						at, rest = end, rest-part
					}
				}
				own[i] = min(own[i]+cost*time.Duration(sum)/time.Duration(weights[i]), queue+cost)
				queue += cost
			}
		}
		if len(taken) == 0 {
			t.Error("nothing departed ahead")
		}
		var all []int64
		for n := range taken {
			all = append(all, n)
		}
		slices.Sort(all)
		for _, n := range all {
			if maximum := c.slot() + longest + time.Minute; taken[n] > maximum {
				t.Errorf("weights %v: a slot has %v, %v at most", weights, taken[n], maximum)
			}
		}
	}
}
