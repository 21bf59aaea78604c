// SPDX-License-Identifier: Apache-2.0

package native

import (
	"slices"
	"testing"
	"time"

	"weir/kernel/tcpinfo"
	"weir/lab/traffic"
)

func received(segments uint32) tcpinfo.Info {
	b := make([]byte, tcpinfo.Size)
	info, _ := tcpinfo.Parse(b)
	info.Data_segs_in = segments
	return info
}

// TestWhatWasHeldBackCountsWhenItCame: a receiver that waits for a repair from 0.25 s to 0.65 s is
// handed all of it at once, and its application reads it in the seventh interval, beyond a settle
// time of 0.6 s.
func TestWhatWasHeldBackCountsWhenItCame(t *testing.T) {
	const segment, every = 1448, 10 * time.Millisecond
	m := newMeter(time.Unix(0, 0), time.Second)
	var a arrived
	var held int
	for at := every; at <= time.Second; at += every {
		a.observe(at, received(uint32(at/every))) // one segment in each
		held++
		if at > 250*time.Millisecond && at <= 650*time.Millisecond {
			continue
		}
		m.add(time.Unix(0, int64(at-time.Microsecond)), held*segment)
		held = 0
	}
	if m.bins[4] != 0 || m.bins[6] < 40*segment {
		t.Fatalf("the application is handed %v", m.bins)
	}
	for i, octets := range a.apportion(m.total, len(m.bins)) {
		if want := uint64(10 * segment); octets < want-10 || octets > want+10 {
			t.Errorf("%d bytes in interval %d, want %d", octets, i, want)
		}
	}
}

func TestSpreadKeepsTheSum(t *testing.T) {
	var a arrived
	for i, segments := range []uint32{0, 3, 3, 3, 3, 7, 20, 21} {
		a.observe(time.Duration(i)*37*time.Millisecond, received(segments))
	}
	bins := a.apportion(10001, 3)
	var sum uint64
	for _, n := range bins {
		sum += n
	}
	if sum != 10001 || bins[0] == 0 {
		t.Errorf("%v add up to %d", bins, sum)
	}
	if none := new(arrived).apportion(5, 3); none != nil {
		t.Errorf("without samples: %v", none)
	}
	var old arrived
	old.observe(time.Second, tcpinfo.Info{})
	if old.apportion(5, 3) != nil {
		t.Error("a kernel that does not tell is believed")
	}
}

// The kernel's counter has 32 bits.
func TestSegmentsBeyondTheCounter(t *testing.T) {
	var a arrived
	for i, segments := range []uint32{1 << 31, 1<<32 - 10, 10} {
		a.observe(time.Duration(i+1)*traffic.RateInterval, received(segments))
	}
	var got []uint64
	for _, one := range a.all {
		got = append(got, one.segments)
	}
	if want := []uint64{0, 1 << 31, 1<<32 - 10, 1<<32 + 10}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
