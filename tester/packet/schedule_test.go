// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/kernel/testutil"
	"weir/tester"
	"weir/tester/frame"
)

func stream(id uint16) tester.Stream {
	return tester.Stream{ID: id, Stamped: true, Sizes: []tester.SizeShare{{Size: 64, Weight: 1}}, Header: tester.Header{
		SourceMAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, DestinationMAC: net.HardwareAddr{2, 0, 0, 0, 0, 2},
		Source: netip.MustParseAddr("198.18.0.1"), Destination: netip.MustParseAddr("198.19.0.1"),
	}}
}

// slow is the oracle of the scheduler: it examines all streams each time.
type slow struct {
	plan   []frame.Planned
	skip   bool
	within uint64 // tolerance
	due    []uint64
	burst  []int
	frames []uint64
	missed []uint64
}

func (s *slow) next(elapsed uint64) (index int) {
	index = -1
	for i, p := range s.plan {
		ended := p.Frames != 0 && s.frames[i] >= p.Frames
		if !ended && s.due[i] <= elapsed && (index < 0 || s.due[i] < s.due[index]) {
			index = i
		}
	}
	if index < 0 {
		return -1
	}
	p := s.plan[index]
	if s.burst[index] == 0 && s.skip && elapsed-s.due[index] >= s.within {
		for s.due[index]+p.Period() <= elapsed {
			s.due[index] += p.Period()
			s.missed[index] += uint64(max(p.Burst, 1))
		}
	}
	s.frames[index]++
	if s.burst[index]++; s.burst[index] >= max(p.Burst, 1) {
		s.burst[index] = 0
		s.due[index] += p.Period()
	}
	return index
}

func TestSchedulerAgainstASlowOne(t *testing.T) {
	r := testutil.Rand(t)
	for range 60 {
		schedule := tester.Schedule{Duration: time.Second, Policy: []tester.Policy{tester.Skip, tester.CatchUp}[r.IntN(2)]}
		schedule.Tolerance = time.Duration(r.IntN(2) * r.IntN(3000))
		for id := range uint16(1 + r.IntN(40)) {
			s := stream(id)
			s.Gap = time.Duration(1 + r.IntN(1000))
			s.Start = time.Duration(r.IntN(2000))
			s.Burst = r.IntN(4)
			s.Frames = uint64(r.IntN(30))
			schedule.Streams = append(schedule.Streams, s)
		}
		compareSchedulers(t, r, schedule)
	}
}

func compareSchedulers(t *testing.T, r *rand.Rand, schedule tester.Schedule) {
	t.Helper()
	plan, err := frame.Plan(schedule)
	if err != nil {
		t.Fatal(err)
	}
	n := len(plan)
	oracle := &slow{plan: plan, skip: schedule.Policy == tester.Skip, within: uint64(schedule.Tolerance), due: make([]uint64, n), burst: make([]int, n), frames: make([]uint64, n), missed: make([]uint64, n)}
	for i, p := range plan {
		oracle.due[i] = uint64(p.Start)
	}
	fast := newScheduler(schedule, plan)
	elapsed := uint64(0)
	for range 2000 {
		elapsed += uint64(r.IntN(100))
		want := oracle.next(elapsed)
		index, due := fast.next(elapsed)
		if index != want {
			t.Fatalf("at %d: stream %d, want %d", elapsed, index, want)
		}
		if index < 0 {
			continue
		}
		fast.account(index, due, elapsed)
	}
	var frames, missed []uint64
	for _, s := range fast.sent {
		frames, missed = append(frames, s.Frames), append(missed, s.Skipped)
	}
	if diff := cmp.Diff([][]uint64{oracle.frames, oracle.missed}, [][]uint64{frames, missed}); diff != "" {
		t.Errorf("frames and skipped frames (-oracle +scheduler):\n%s", diff)
	}
}

func TestStreamsWithoutPaceTakeTurns(t *testing.T) {
	schedule := tester.Schedule{Duration: time.Second}
	for id, start := range []time.Duration{0, 0, 5, 0} {
		s := stream(uint16(id))
		s.Start = start
		s.Frames = 3
		schedule.Streams = append(schedule.Streams, s)
	}
	plan, err := frame.Plan(schedule)
	if err != nil {
		t.Fatal(err)
	}
	s := newScheduler(schedule, plan)
	var order []int
	for elapsed := uint64(0); ; elapsed++ {
		index, due := s.next(elapsed)
		if due == never {
			break
		}
		s.account(index, due, elapsed)
		order = append(order, index)
	}
	// stream 2 joins at 5, at the end of the queue; the last stream takes the place of one that has
	// ended
	if diff := cmp.Diff([]int{0, 1, 3, 0, 1, 3, 2, 0, 2, 1, 3, 2}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestNothingIsAllocatedPerFrame(t *testing.T) {
	schedule := tester.Schedule{Duration: time.Second}
	for id := range uint16(100) {
		s := stream(id)
		s.Gap = time.Duration(id % 7)
		s.Modifiers = []tester.Modifier{{Action: tester.Random, Offset: 30, Mask: []byte{0xff, 0xff}}}
		schedule.Streams = append(schedule.Streams, s)
	}
	plan, err := frame.Plan(schedule)
	if err != nil {
		t.Fatal(err)
	}
	s := newScheduler(schedule, plan)
	buffer := make([]byte, frame.MaxSize)
	elapsed := uint64(0)
	allocations := testing.AllocsPerRun(5000, func() {
		elapsed += 3
		index, due := s.next(elapsed)
		if index < 0 {
			return
		}
		n := s.sent[index].Frames
		plan[index].Next(n).Fill(buffer, n, elapsed, false)
		s.account(index, due, elapsed)
	})
	if allocations != 0 {
		t.Errorf("%v allocations per frame", allocations)
	}
}
