// SPDX-License-Identifier: Apache-2.0

package analyzer

import (
	"math"
	"slices"
	"testing"
	"time"

	"weir/record/hist"
	"weir/tester"
	"weir/tester/frame"
)

// sent is one injected frame: its number and its stamp, in frames of one sender from its start.
type sent struct {
	sequence uint64
	at       int64
	change   func([]byte) []byte
}

// inOrder returns the frames of a sender that starts at the time at.
func inOrder(n uint64, at int64) (list []sent) {
	for s := range n {
		list = append(list, sent{sequence: s, at: at + int64(s)})
	}
	return list
}

func flip(at int) func([]byte) []byte {
	return func(o []byte) []byte { o[at] ^= 0x10; return o }
}

func without(list []sent, sequences ...uint64) []sent {
	return slices.DeleteFunc(list, func(s sent) bool { return slices.Contains(sequences, s.sequence) })
}

// moved moves the frame at index from to index to.
func moved(list []sent, from, to int) []sent {
	one := list[from]
	return slices.Insert(slices.Delete(list, from, from+1), to, one)
}

func changed(list []sent, place int, change func([]byte) []byte) []sent {
	list[place].change = change
	return list
}

func renumbered(list []sent, place int, sequence uint64) []sent {
	list[place].sequence = sequence
	return list
}

// tagged adds an outer VLAN tag.
func tagged(o []byte) []byte {
	return append(append(append([]byte{}, o[:12]...), 0x88, 0xa8, 0, 9), o[12:]...)
}

func each(list []sent, change func([]byte) []byte) []sent {
	for i := range list {
		list[i].change = change
	}
	return list
}

// TestInjected injects known disturbances and expects exactly these, for every offset of the
// sender's clock. Counters that a case does not name must be 0.
func TestInjected(t *testing.T) {
	const n = 20
	four, six := stream(7, false, 0), stream(7, true, 0)
	lots := uint64(blocks*64) + 200
	tests := []struct {
		name   string
		stream tester.Stream
		size   int
		frames []sent
		want   tester.Counts
	}{
		{"nothing", four, 64, inOrder(n, 0), tester.Counts{Unique: n}},
		{"IPv6", six, 84, inOrder(n, 0), tester.Counts{Unique: n}},
		{"a tag", stream(7, false, 9), 68, inOrder(n, 0), tester.Counts{Unique: n}},
		{"two tags", stream(7, false, 9), 68, each(inOrder(n, 0), tagged), tester.Counts{Unique: n}},
		{"two tags, IPv6", stream(7, true, 9), 88, each(inOrder(n, 0), tagged), tester.Counts{Unique: n}},
		{"1518 octets", four, 1518, inOrder(n, 0), tester.Counts{Unique: n}},
		{"one lost", four, 64, without(inOrder(n, 0), 5), tester.Counts{Unique: n - 1, Lost: 1}},
		{"some lost", six, 84, without(inOrder(n, 0), 5, 6, 7, 12), tester.Counts{Unique: n - 4, Lost: 4}},
		{"the first lost", four, 64, without(inOrder(n, 0), 0, 1), tester.Counts{Unique: n - 2, Lost: 2}},
		{"every other one lost", four, 64, without(inOrder(n, 0), 0, 2, 4, 6, 8, 10, 12, 14, 16, 18), tester.Counts{Unique: 10, Lost: 10}},
		{"one twice", four, 64, slices.Insert(inOrder(n, 0), 6, sent{sequence: 5, at: 5}), tester.Counts{Unique: n, Duplicates: 1}},
		{"one three times", six, 84, slices.Insert(inOrder(n, 0), 9, sent{sequence: 5, at: 5}, sent{sequence: 5, at: 5}), tester.Counts{Unique: n, Duplicates: 2}},
		{"all twice", four, 64, slices.Concat(inOrder(n, 0), inOrder(n, 0)), tester.Counts{Unique: n, Duplicates: n}},
		{"two swapped", four, 64, moved(inOrder(n, 0), 5, 6), tester.Counts{Unique: n, Reordered: 1, MaxExtent: 1}},
		{"one late by 10", four, 64, moved(inOrder(n, 0), 5, 15), tester.Counts{Unique: n, Reordered: 1, MaxExtent: 10}},
		{"two late", six, 84, moved(moved(inOrder(n, 0), 2, 8), 9, 12), tester.Counts{Unique: n, Reordered: 2, MaxExtent: 6}},
		{"the first one last", four, 64, moved(inOrder(n, 0), 0, n-1), tester.Counts{Unique: n, Reordered: 1, MaxExtent: n - 1}},
		{"late and twice", four, 64, slices.Insert(moved(inOrder(n, 0), 5, 15), 17, sent{sequence: 5, at: 5}), tester.Counts{Unique: n, Reordered: 1, MaxExtent: 10, Duplicates: 1}},
		{"later than the window", four, 64, moved(inOrder(lots, 0), 5, int(lots)-1), tester.Counts{Unique: lots - 1, Lost: 1, OutOfWindow: 1}},
		{"a copy later than the window", four, 64, append(inOrder(lots, 0), sent{sequence: 5, at: 5}), tester.Counts{Unique: lots, OutOfWindow: 1}},
		{"a bit of payload", four, 128, changed(inOrder(n, 0), 5, flip(60)), tester.Counts{Unique: n - 1, Lost: 1, PayloadErrors: 1}},
		{"a bit of payload, IPv6", six, 1500, changed(inOrder(n, 0), 5, flip(777)), tester.Counts{Unique: n - 1, Lost: 1, PayloadErrors: 1}},
		{"a bit of the UDP header", four, 64, changed(inOrder(n, 0), 5, flip(35)), tester.Counts{Unique: n - 1, Lost: 1, PayloadErrors: 1}},
		{"a bit of the sequence number", four, 64, changed(inOrder(n, 0), 5, flip(47)), tester.Counts{Unique: n - 1, Lost: 1, PayloadErrors: 1}},
		{"a bit of the IPv4 header", four, 64, changed(inOrder(n, 0), 5, flip(15)), tester.Counts{Unique: n - 1, Lost: 1, HeaderErrors: 1}},
		{"a wrong IPv4 header checksum", four, 64, changed(inOrder(n, 0), 5, flip(24)), tester.Counts{Unique: n - 1, Lost: 1, HeaderErrors: 1}},
		{"one wrong number", four, 64, renumbered(inOrder(n, 0), 5, 5<<16), tester.Counts{Unique: n - 1, Lost: 1, Misnumbered: 1}},
		{"the first number wrong", six, 84, renumbered(inOrder(n, 0), 0, 5<<16), tester.Counts{Unique: n - 1, Lost: 1, Misnumbered: 1}},
		{"begun again", four, 64, slices.Concat(inOrder(n, 0), inOrder(n, 1000)), tester.Counts{Unique: 2 * n, Earlier: n, Restarts: 1}},
		{"begun again, both with loss", four, 64, slices.Concat(without(inOrder(n, 0), 3), without(inOrder(n, 1000), 0, 7, 8)),
			tester.Counts{Unique: 2*n - 4, Earlier: n - 1, Restarts: 1, Lost: 4}},
		{"begun again twice, far", four, 64, slices.Concat(inOrder(lots, 0), inOrder(n, 100_000), inOrder(n, 200_000)),
			tester.Counts{Unique: lots + 2*n, Earlier: lots + n, Restarts: 2}},
	}
	var ids []uint16
	for i := range tests {
		ids = append(ids, uint16(i))
	}
	for _, clock := range []struct {
		ahead    time.Duration
		relative bool
	}{{-time.Second, false}, {time.Hour, true}, {-time.Hour, true}} {
		for _, parallel := range []bool{false, true} {
			b := newBench(t, Options{Streams: ids, Relative: clock.relative}, parallel)
			for i, test := range tests {
				test.stream.ID = uint16(i)
				b.send(build(t, test.stream, test.size), i, test.frames, clock.ahead, 1000)
				got := b.counts(i)
				found := tester.Counts{
					Unique: got.Unique, Lost: got.Lost, Duplicates: got.Duplicates, Reordered: got.Reordered, MaxExtent: got.MaxExtent, OutOfWindow: got.OutOfWindow,
					PayloadErrors: got.PayloadErrors, HeaderErrors: got.HeaderErrors, Misnumbered: got.Misnumbered, Restarts: got.Restarts, Earlier: got.Earlier,
				}
				if found != test.want {
					t.Errorf("%s (several queues: %t, clock %s ahead):\n found %+v\n  want %+v", test.name, parallel, clock.ahead, found, test.want)
				}
				if got.Received != uint64(len(test.frames)) {
					t.Errorf("%s: received %d of %d", test.name, got.Received, len(test.frames))
				}
			}
		}
	}
}

// send injects the frames, from a sender with its clock ahead, and returns the difference of
// arrival and stamp of each.
func (b *bench) send(template *frame.Template, slot int, frames []sent, ahead time.Duration, apart int64) (transits []int64) {
	b.t.Helper()
	for _, f := range frames {
		stamped := uint64(int64(b.began) + int64(ahead) + f.at*apart)
		octets := template.Fill(make([]byte, len(template.Octets)), f.sequence, stamped, false)
		if f.change != nil {
			octets = f.change(octets)
		}
		if verdict := b.inject(octets); verdict != drop {
			b.t.Fatalf("frame %d: verdict %d", f.sequence, verdict)
		}
		transits = append(transits, int64(b.arrived(slot))+b.tai()-int64(stamped))
	}
	return transits
}

// TestDelaysOfTwoClocks expects the same delays, relative to the smallest, for every offset of the
// sender's clock.
func TestDelaysOfTwoClocks(t *testing.T) {
	for _, ahead := range []time.Duration{0, 3 * time.Millisecond, -3 * time.Millisecond, time.Hour, -time.Hour, 300 * 24 * time.Hour} {
		b := newBench(t, Options{Streams: []uint16{7}, Relative: true}, false)
		frames := inOrder(300, 0)
		transits := b.send(build(t, stream(7, false, 0), 64), 0, frames, ahead, 100_000)
		want := oracleOfTwoClocks(transits)
		got := b.counts(0)
		if got.DelayBase != slices.Min(transits) || got.DelayMin != 0 || got.DelayMax != want.Max() || got.DelaySum != want.Sum() || got.Delay.Count() != 300 {
			t.Errorf("%s ahead: base %d, %d to %d, sum %d, %d delays; want %d, 0 to %d, %d, 300", ahead,
				got.DelayBase, got.DelayMin, got.DelayMax, got.DelaySum, got.Delay.Count(), slices.Min(transits), want.Max(), want.Sum())
		}
		for _, q := range []float64{0, 0.1, 0.5, 0.9, 0.99, 1} {
			have, exact := float64(got.Delay.Quantile(q)), float64(want.Quantile(q))
			if math.Abs(have-exact) > exact/16+float64(got.DelayBlur)+1 {
				t.Errorf("%s ahead: quantile %g is %g, want %g (blur %d)", ahead, q, have, exact, got.DelayBlur)
			}
		}
	}
}

func oracleOfTwoClocks(transits []int64) *hist.Histogram {
	h, least := &hist.Histogram{}, slices.Min(transits)
	for _, transit := range transits {
		h.Record(uint64(transit - least))
	}
	return h
}
