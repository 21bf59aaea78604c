// SPDX-License-Identifier: Apache-2.0

package sample

import (
	"encoding/binary"
	"math"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"

	"weir/kernel/testutil"
	"weir/modules/offload/plan"
)

// taker is the sampling program alone.
func taker(t *testing.T, on bool) (*sampleObjects, Sampler) {
	t.Helper()
	testutil.NeedRoot(t)
	spec, err := loadSample()
	if err != nil {
		t.Fatal(err)
	}
	if err := Ready(spec, on); err != nil {
		t.Fatal(err)
	}
	o := &sampleObjects{}
	if err := spec.LoadAndAssign(o, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.Close() })
	return o, Sampler{Maps{o.SamplePlaces, o.SampleFacts, o.SampleSeen}}
}

// pass runs the program on packets to an address.
func pass(t *testing.T, o *sampleObjects, to netip.Addr, packets uint32) {
	t.Helper()
	frame := make([]byte, 64)
	if to.Is4() {
		binary.BigEndian.PutUint16(frame[12:], 0x0800)
		copy(frame[30:], to.AsSlice())
	} else {
		binary.BigEndian.PutUint16(frame[12:], 0x86dd)
		copy(frame[38:], to.AsSlice())
	}
	if _, err := o.SamplePacket.Run(&ebpf.RunOptions{Data: frame, Repeat: packets}); err != nil {
		t.Fatal(err)
	}
}

// The slots hold each destination of a constant stream in proportion, and old destinations as much
// as their age leaves.
func TestSamplesAreInProportionAndForget(t *testing.T) {
	o, s := taker(t, true)
	one, other := netip.MustParseAddr("198.51.100.7"), netip.MustParseAddr("2001:db8::7")
	const packets, n = 400_000, float64(sampleSampleBoundsSAMPLE_PLACES)
	pass(t, o, other, packets)
	pass(t, o, one, packets/10)
	counts, err := s.Destinations()
	if err != nil {
		t.Fatal(err)
	}
	// A slot keeps its value after m packets with probability (1 - 1/n)^m.
	left := math.Exp(-packets / 10 / n)
	filled := 1 - math.Exp(-packets/n)
	// Slots are almost independent: less than 2 % are empty, six standard deviations are 770.
	for a, want := range map[netip.Addr]float64{one: n * (1 - left), other: n * filled * left} {
		if got := float64(counts[a]); math.Abs(got-want) > 770 {
			t.Errorf("%s has %g places, want %.0f within 770", a, got, want)
		}
	}
	if len(counts) != 2 {
		t.Errorf("%d destinations, want 2: %v", len(counts), counts)
	}
}

// One of mask + 1 packets is sampled, and the mask follows the packet rate.
func TestTheMaskFollowsTheTraffic(t *testing.T) {
	o, s := taker(t, true)
	to := netip.MustParseAddr("198.51.100.7")
	const packets = 1 << 22
	want := plan.Chosen{Budget: 10, Rules: 9, Routes: 8, Chosen: 7, Traffic: 6, Carried: 5}
	if err := s.Record(want, packets); err != nil {
		t.Fatal(err)
	}
	got, err := s.Choice()
	if err != nil || got.Budget != 10 || got.Rules != 9 || got.Routes != 8 || got.Chosen != 7 || got.Traffic != 6 || got.Carried != 5 {
		t.Errorf("the choice %+v, %v; want %+v", got, err, want)
	}
	pass(t, o, to, packets)
	counts, err := s.Destinations()
	if err != nil {
		t.Fatal(err)
	}
	// 2^22 packets are 64 times the slots: one of 2^7 packets is sampled, so half of e^-0.5 are
	// empty. Six standard deviations are 770.
	n := float64(sampleSampleBoundsSAMPLE_PLACES)
	if filled := n * (1 - math.Exp(-0.5)); math.Abs(float64(counts[to])-filled) > 770 {
		t.Errorf("%d places are filled, want %.0f", counts[to], filled)
	}
	if n, err := s.Packets(); err != nil || n != packets {
		t.Errorf("%d packets were seen, want %d; %v", n, packets, err)
	}
	_, later := taker(t, true)
	if err := later.Inherit(s); err != nil {
		t.Fatal(err)
	}
	if taken, err := later.Destinations(); err != nil || taken[to] != counts[to] {
		t.Errorf("%d samples were taken over of %d, %v", taken[to], counts[to], err)
	}
}

// Without a budget nothing is sampled, and the program has no code for it.
func TestNothingIsSampledUnasked(t *testing.T) {
	o, s := taker(t, false)
	pass(t, o, netip.MustParseAddr("198.51.100.7"), 1000)
	counts, err := s.Destinations()
	if err != nil || counts != nil || s.On() {
		t.Errorf("%v, %v", counts, err)
	}
}
