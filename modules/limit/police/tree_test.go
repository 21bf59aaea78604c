// SPDX-License-Identifier: Apache-2.0

package police

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"weir/internal/units"
	"weir/kernel/clock"
)

// twins returns packets of scope 1 (IPv4) and scope 2 (IPv6). Their parent, scope 0, has the host's
// other packets.
func twins(t *testing.T, parent, first, second Limit) (p *DataPlane, packets [3][]byte) {
	t.Helper()
	p = plane(t, 3)
	for scope, prefix := range map[int]string{1: "10.0.0.0/8", 2: "fd00::/64"} {
		if err := p.SetParent(scope, 0); err != nil {
			t.Fatal(err)
		}
		if err := p.AssignPrefix(netip.MustParsePrefix(prefix), scope); err != nil {
			t.Fatal(err)
		}
	}
	for scope, l := range []Limit{parent, first, second} {
		if err := p.Set(scope, Egress, l); err != nil {
			t.Fatal(err)
		}
	}
	return p, [3][]byte{1: datagram(t, false, 0, payload4), 2: datagram(t, true, 0, payload6)}
}

// below returns a limit with a parent.
func (l Limit) below(weight int, least units.BitRate) Limit {
	l.Weight, l.Min = weight, least
	return l
}

// charged returns the charge of each of the first scopes in packets of 1000 bytes.
func charged(t *testing.T, p *DataPlane, scopes int) (packets []uint64) {
	t.Helper()
	for scope := range scopes {
		c := counters(t, p, scope)
		if c.Bytes%1000 != 0 {
			t.Fatalf("scope %d was charged for %d octets", scope, c.Bytes)
		}
		packets = append(packets, c.Bytes/1000)
	}
	return packets
}

func same(got []uint64, want ...uint64) bool {
	for i := range got {
		if got[i] != want[i] {
			return false
		}
	}
	return len(got) == len(want)
}

func TestParentIsChargedOnceForItsChildren(t *testing.T) {
	wide := slow(4, 50, 100)
	p, packets := twins(t, wide, wide.below(1, 0), wide.below(1, 0))
	send(t, p.objects.LimitEgress, packets[1])
	send(t, p.objects.LimitEgress, packets[1])
	send(t, p.objects.LimitEgress, packets[2])
	if got := charged(t, p, 3); !same(got, 3, 2, 1) {
		t.Errorf("charged %d packets, want 3, 2 and 1", got)
	}
}

func TestGrandparentsAreChargedToTheDepthOfFour(t *testing.T) {
	p := plane(t, 6)
	for scope := range 6 {
		if err := p.Set(scope, Egress, slow(4, 50, 100).below(1, 0)); err != nil {
			t.Fatal(err)
		}
	}
	for _, link := range [][2]int{{3, 4}, {2, 3}, {0, 2}} {
		if err := p.SetParent(link[0], link[1]); err != nil {
			t.Fatal(err)
		}
	}
	frame := datagram(t, false, 0, payload4)
	send(t, p.objects.LimitEgress, frame)
	if got := charged(t, p, 6); !same(got, 1, 0, 1, 1, 1, 0) {
		t.Errorf("charged %d packets, want one each for 0, 2, 3 and 4", got)
	}
	if err := p.SetParent(1, 0); err == nil {
		t.Error("a fifth level was accepted")
	}
	// A second scope of the same packet is one too many; the innermost are charged.
	if err := p.AssignUser(0, 1); err != nil {
		t.Fatal(err)
	}
	send(t, p.objects.LimitEgress, frame)
	if n, err := p.Overflow(); err != nil || n != 1 {
		t.Errorf("overflow %d (%v), want 1", n, err)
	}
	if err := p.ClearParent(0); err != nil {
		t.Fatal(err)
	}
	before := charged(t, p, 6)
	send(t, p.objects.LimitEgress, frame)
	if got := charged(t, p, 6); got[0] != before[0]+1 || got[2] != before[2] {
		t.Errorf("charged %d packets after %d, want one more for 0 and none for 2", got, before)
	}
}

// A full parent drops packets of the child without a minimum, and admits those of the other within
// its own.
func TestFullParentAdmitsWhatIsGuaranteed(t *testing.T) {
	wide := slow(4, 300, 400)
	// The children's limits are ten times the parent's, so that they drop nothing themselves.
	wide.Rate, wide.Burst = 10*MinRate, wide.Burst/10
	p, packets := twins(t, slow(4, 10, 20), wide.below(1, MinRate), wide.below(1, 0))
	began := time.Now()
	for range 100 {
		send(t, p.objects.LimitEgress, packets[2])
	}
	full := counters(t, p, 0)
	// Twice the threshold for the children's traffic, less the reserve, and the burst.
	if least, most := uint64(43), 43+drained(began); full.Packets < least || full.Packets > most {
		t.Fatalf("the parent admitted %d packets, want %d to %d", full.Packets, least, most)
	}
	verdict, _ := send(t, p.objects.LimitEgress, packets[1])
	if got := counters(t, p, 1); verdict != pass || got.Packets != 1 {
		t.Errorf("verdict %d of a guaranteed packet, %d charged", verdict, got.Packets)
	}
	// Even guarantees end at the ceiling, four times the threshold.
	for range 200 {
		send(t, p.objects.LimitEgress, packets[1])
	}
	if got := counters(t, p, 0); got.Packets > 86+drained(began) {
		t.Errorf("the parent admitted %d packets, at most %d are below its ceiling", got.Packets, 86+drained(began))
	}
}

// In shadow a parent counts the packets that its children would admit, not their drops.
func TestShadowParentCountsPacketsAdmittedByShadowChildren(t *testing.T) {
	parent, child := slow(4, 300, 400), slow(4, 20, 30).below(1, 0)
	parent.Shadow, child.Shadow = true, true
	p, packets := twins(t, parent, child, child)
	for range 100 {
		if verdict, _ := send(t, p.objects.LimitEgress, packets[1]); verdict != pass {
			t.Fatalf("verdict %d", verdict)
		}
	}
	first, all := counters(t, p, 1), counters(t, p, 0)
	if first.Dropped == 0 || all.Packets != first.Packets || all.Packets+first.Dropped != 100 {
		t.Errorf("the child would have admitted %d and refused %d, the parent admitted %d", first.Packets, first.Dropped, all.Packets)
	}
}

// When the rate of a child rises, its queue keeps its bytes, not its time: packets admitted at a
// low rate would otherwise cause drops long after.
func TestQueueFollowsTheRate(t *testing.T) {
	wide := slow(4, 300, 400)
	wide.Rate = 10 * MinRate
	p, packets := twins(t, wide, wide.below(1, 0), wide.below(1, 0))
	const child = 2 * 1 // scope 1, egress
	var state limitLimitState
	if err := p.objects.LimitStates.Lookup(uint32(child), &state); err != nil {
		t.Fatal(err)
	}
	now := clock.Now()
	state.FinishNs = now + int64(1000*time.Second)
	little := limitLimitFairShare{Allowed: uint64(MinRate) / 8, Cost: uint64(8e9 / float64(MinRate) * (1 << limitLimitFormatLIMIT_COST_SHIFT))}
	if err := errors.Join(p.objects.LimitStates.Put(uint32(child), &state), p.objects.LimitShares.Put(uint32(child), &little)); err != nil {
		t.Fatal(err)
	}
	if verdict, _ := send(t, p.objects.LimitEgress, packets[1]); verdict != reject {
		t.Errorf("verdict %d behind a queue of 1000 s", verdict)
	}
	got, err := p.State(1, Egress)
	if err != nil || got.Allowed != 10*MinRate || got.Queue > 101*time.Second || got.Queue < 50*time.Second {
		t.Errorf("state %+v (%v), want all of the parent's rate and a tenth of the queue's time", got, err)
	}
}

// A parent without packets, since its children drop all, learns from them that it is unused.
func TestSilentChildrenRaiseTheirParentsUnit(t *testing.T) {
	wide := slow(4, 20, 30)
	wide.Rate = 100 * MinRate
	p, packets := twins(t, wide, wide.below(1, 0), wide.below(1, 0))
	const parent = 2 * 0
	little := limitLimitFairShare{Unit: uint64(MinRate) / 8 << limitLimitFormatLIMIT_UNIT_SHIFT}
	if err := p.objects.LimitShares.Put(uint32(parent), &little); err != nil {
		t.Fatal(err)
	}
	send(t, p.objects.LimitEgress, packets[1])
	// The child's packet reached the parent too, and its unused rate was restored.
	first, err := p.State(0, Egress)
	if err != nil || first.Unit < MinRate*3/2 {
		t.Errorf("unit %s (%v), want %s or more", first.Unit, err, MinRate*3/2)
	}
	if child, err := p.State(1, Egress); err != nil || child.Allowed < MinRate*3/2 || child.Allowed >= 100*MinRate {
		t.Errorf("the child may use %s (%v), want what the raised unit gives", child.Allowed, err)
	}
}

// A child's packet with a clock reading before the start of its parent's interval ends no silence.
func TestAParentsIntervalThatBeganLaterIsNoSilence(t *testing.T) {
	wide := slow(4, 20, 30)
	wide.Rate = 100 * MinRate
	p, packets := twins(t, wide, wide.below(1, 0), wide.below(1, 0))
	const parent = 2 * 0
	shares := limitLimitFairShare{Unit: uint64(MinRate) / 8 << limitLimitFormatLIMIT_UNIT_SHIFT}
	began := limitLimitState{IntervalStartNs: uint64(clock.Now() + int64(time.Hour))}
	if err := errors.Join(p.objects.LimitShares.Put(uint32(parent), &shares), p.objects.LimitStates.Put(uint32(parent), &began)); err != nil {
		t.Fatal(err)
	}
	send(t, p.objects.LimitEgress, packets[1])
	if got, err := p.State(0, Egress); err != nil || got.Unit != MinRate {
		t.Errorf("unit %s (%v), want %s as before", got.Unit, err, MinRate)
	}
	if child, err := p.State(1, Egress); err != nil || child.Allowed != MinRate {
		t.Errorf("the child may use %s (%v), want the unit, %s", child.Allowed, err, MinRate)
	}
}
