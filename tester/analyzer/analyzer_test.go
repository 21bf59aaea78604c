// SPDX-License-Identifier: Apache-2.0

package analyzer

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"weir/kernel/testutil"
	"weir/record/hist"
	"weir/tester"
	"weir/tester/frame"
)

const (
	drop = 1 // XDP_DROP
	pass = 2 // XDP_PASS
)

func stream(id uint16, six bool, vlan int) tester.Stream {
	s := tester.Stream{ID: id, Stamped: true, Header: tester.Header{
		SourceMAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, DestinationMAC: net.HardwareAddr{2, 0, 0, 0, 0, 2}, VLAN: vlan,
		Source: netip.MustParseAddr("198.18.0.1"), Destination: netip.MustParseAddr("198.19.0.1"),
		SourcePort: 49152, DestinationPort: 50000, DSCP: 46,
	}}
	if six {
		s.Header.Source, s.Header.Destination = netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")
	}
	s.Sizes = []tester.SizeShare{{Size: frame.Smallest(s.Header, true)}}
	return s
}

func build(t testing.TB, s tester.Stream, size int) *frame.Template {
	t.Helper()
	template, err := frame.Build(s, size)
	if err != nil {
		t.Fatal(err)
	}
	return template
}

// bench is an analyzer that receives frames through BPF_PROG_TEST_RUN.
type bench struct {
	*Analyzer
	t     testing.TB
	began uint64 // stamp of the sequence number 0
}

func newBench(t testing.TB, options Options, parallel bool) *bench {
	t.Helper()
	testutil.NeedRoot(t)
	a, err := load(options, parallel)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	b := &bench{Analyzer: a, t: t}
	b.began = b.now()
	return b
}

// now returns the time for a stamp.
func (b *bench) now() uint64 {
	return uint64(time.Now().UnixNano()) // TAI is UTC if the kernel has no offset, otherwise 37 s away
}

// inject runs the program once and returns its verdict.
func (b *bench) inject(octets []byte) uint32 {
	b.t.Helper()
	verdict, err := b.objects.Analyze.Run(&ebpf.RunOptions{Data: octets, Repeat: 1})
	if err != nil {
		b.t.Fatal(err)
	}
	return verdict
}

func (b *bench) counts(slot int) tester.Counts {
	b.t.Helper()
	analysis, err := b.Snapshot()
	if err != nil {
		b.t.Fatal(err)
	}
	return analysis.Streams[slot]
}

// arrived returns the arrival time of the stream's last frame, by the program's clock.
func (b *bench) arrived(slot int) uint64 {
	b.t.Helper()
	var c analyzerStreamCounts
	if err := b.objects.Streams.Lookup(uint32(slot), &c); err != nil {
		b.t.Fatal(err)
	}
	return c.Last
}

func (b *bench) tai() int64 {
	b.t.Helper()
	var settings analyzerAnalyzerSettings
	if err := b.objects.Settings.Get(&settings); err != nil {
		b.t.Fatal(err)
	}
	return settings.Tai
}

// play injects frames of one stream, stamped apart ns from each other, and returns the oracle's
// input.
func (b *bench) play(template *frame.Template, slot int, sequences []uint64, apart uint64, corrupt func(int) bool) []arrival {
	b.t.Helper()
	var arrivals []arrival
	offset := b.tai()
	buffer := make([]byte, len(template.Octets))
	for i, sequence := range sequences {
		stamped := b.began + sequence*apart // a later number has a later stamp; copies share one
		octets := template.Fill(buffer, sequence, stamped, false)
		a := arrival{sequence: sequence, stamp: stamped, corrupt: corrupt != nil && corrupt(i), wire: uint64(template.WireSize()), payload: uint64(template.PayloadSize())}
		if a.corrupt {
			octets[template.UDP+2] ^= 1 // another port, the old checksum
		}
		if verdict := b.inject(octets); verdict != drop {
			b.t.Fatalf("frame %d (sequence %d): verdict %d", i, sequence, verdict)
		}
		a.transit = int64(b.arrived(slot)) + offset - int64(stamped)
		arrivals = append(arrivals, a)
	}
	return arrivals
}

func histograms(a, b *hist.Histogram) bool { return a.Equal(b) }

// compare checks every counter except times of day, which the oracle cannot predict.
func compare(t testing.TB, want, got tester.Counts) {
	t.Helper()
	ignore := cmp.Options{
		cmp.Comparer(histograms),
		cmpopts.IgnoreFields(tester.Counts{}, "First", "Last"),
		cmpopts.IgnoreFields(tester.SequenceError{}, "At"),
		cmpopts.IgnoreFields(tester.Corruption{}, "At"),
	}
	if diff := cmp.Diff(want, got, ignore); diff != "" {
		t.Errorf("counters differ (-oracle +analyzer):\n%s", diff)
	}
	if got.Received != got.Unique+got.Duplicates+got.OutOfWindow+got.PayloadErrors+got.HeaderErrors+got.Misnumbered {
		t.Errorf("received %d is not the sum of its parts: %+v", got.Received, got)
	}
}

// far builds a range of sequence numbers, ends included.
func far(from, to uint64) (list []uint64) {
	for s := from; s <= to; s++ {
		list = append(list, s)
	}
	return list
}

func TestVectorsByHand(t *testing.T) {
	window := uint64(blocks * 64)
	tests := []struct {
		name      string
		sequences []uint64
		want      tester.Counts
	}{
		{"in order", far(0, 9), tester.Counts{Received: 10, Unique: 10, HighestSequence: 9}},
		{"one lost", []uint64{0, 1, 3}, tester.Counts{Received: 3, Unique: 3, Lost: 1, SequenceErrors: 1, HighestSequence: 3}},
		{"first lost", []uint64{2}, tester.Counts{Received: 1, Unique: 1, Lost: 2, SequenceErrors: 1, HighestSequence: 2}},
		{"one twice", []uint64{0, 1, 1, 2}, tester.Counts{Received: 4, Unique: 3, Duplicates: 1, SequenceErrors: 1, HighestSequence: 2}},
		{"two swapped", []uint64{0, 2, 1, 3}, tester.Counts{Received: 4, Unique: 4, Reordered: 1, MaxExtent: 1, SequenceErrors: 2, HighestSequence: 3}},
		// RFC 4737's example 1 2 3 7 8 9 10 4 5 6 11, here from 0; extents 4, 5 and 6
		{"RFC 4737", []uint64{0, 1, 2, 6, 7, 8, 9, 3, 4, 5, 10}, tester.Counts{Received: 11, Unique: 11, Reordered: 3, MaxExtent: 6, SequenceErrors: 4, HighestSequence: 10}},
		{"a bit of all", []uint64{0, 1, 2, 4, 3, 3, 5, 7, 100, 99, 101, 20},
			tester.Counts{Received: 12, Unique: 11, Duplicates: 1, Reordered: 3, MaxExtent: 3, Lost: 91, SequenceErrors: 7, HighestSequence: 101}},
		// a copy of a late frame does not lengthen extents: duplicates are not counted among the
		// arrivals
		{"duplicates between", []uint64{0, 3, 3, 3, 3, 1, 2}, tester.Counts{Received: 7, Unique: 4, Duplicates: 3, Reordered: 2, MaxExtent: 2, SequenceErrors: 6, HighestSequence: 3}},
		{"edge of window", []uint64{window - 1, 0}, tester.Counts{Received: 2, Unique: 2, Reordered: 1, MaxExtent: 1, Lost: window - 2, SequenceErrors: 2, HighestSequence: window - 1}},
		{"behind window", []uint64{window, 63, 64}, tester.Counts{Received: 3, Unique: 2, OutOfWindow: 1, Reordered: 1, MaxExtent: 1, Lost: window - 1, SequenceErrors: 3, HighestSequence: window}},
		{"window forgotten", []uint64{5, 5 + window, 5 + 3*window, 4 + 2*window, 4 + 3*window},
			tester.Counts{Received: 5, Unique: 4, OutOfWindow: 1, Reordered: 1, MaxExtent: 1, Lost: 6 + 3*window - 4, SequenceErrors: 5, HighestSequence: 5 + 3*window}},
		{"to the last number", []uint64{frame.MaxSequence, frame.MaxSequence - 1},
			tester.Counts{Received: 2, Unique: 2, Reordered: 1, MaxExtent: 1, Lost: frame.MaxSequence - 1, SequenceErrors: 2, HighestSequence: frame.MaxSequence}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t, Options{Streams: []uint16{7}}, false)
			template := build(t, stream(7, false, 0), 64)
			b.play(template, 0, test.sequences, 1, nil)
			test.want.Stream = 7
			test.want.WireBytes, test.want.PayloadBytes = uint64(len(test.sequences)*84), uint64(len(test.sequences)*18)
			got := b.counts(0)
			times := cmpopts.IgnoreFields(tester.Counts{}, "Delay", "DelaySum", "DelayMin", "DelayMax", "DelayLatest", "NegativeDelays", "Variation", "VariationMax", "First", "Last", "LastError")
			if diff := cmp.Diff(test.want, got, times); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got.SequenceErrors > 0 && got.LastError == nil {
				t.Error("no context of the last sequence error")
			}
		})
	}
}

func TestFramesOfAllKinds(t *testing.T) {
	b := newBench(t, Options{Streams: []uint16{1, 4095}}, false)
	four, six := stream(1, false, 0), stream(1, true, 0)
	tests := []struct {
		name   string
		octets func() []byte
		want   uint32
		expect func(tester.Analysis) uint64 // grows by one
	}{
		{"IPv4", b.frame(four, 64), drop, received(0)},
		{"IPv4, odd size", b.frame(four, 65), drop, received(0)},
		{"IPv4, 1518", b.frame(four, 1518), drop, received(0)},
		{"IPv6", b.frame(six, 84), drop, received(0)},
		{"IPv6, odd size", b.frame(six, 1001), drop, received(0)},
		{"IPv4 with a tag", b.frame(stream(1, false, 4094), 68), drop, received(0)},
		{"IPv6 with a tag", b.frame(stream(1, true, 7), 88), drop, received(0)},
		{"the highest stream", b.frame(stream(4095, false, 0), 64), drop, received(1)},
		{"two tags", b.changed(stream(1, false, 7), 68, func(o []byte) []byte {
			return append(append(append([]byte{}, o[:12]...), 0x88, 0xa8, 0, 9), o[12:]...)
		}), drop, received(0)},
		{"padding behind the datagram", b.changed(four, 64, func(o []byte) []byte { return append(o, 0, 1, 2, 3, 4, 5) }), drop, received(0)},
		{"no UDP checksum", b.changed(four, 64, func(o []byte) []byte { o[40], o[41] = 0, 0; return o }), drop, received(0)},
		{"IP options", b.changed(four, 64, func(o []byte) []byte { return withOptions(o) }), drop, received(0)},
		{"another TTL", b.changed(four, 64, func(o []byte) []byte { o[22]--; return headerSum(o) }), drop, received(0)},
		{"another TTL, the old checksum", b.changed(four, 64, func(o []byte) []byte { o[22]--; return o }), drop, headerErrors},
		{"IP options, the old checksum", b.changed(four, 64, func(o []byte) []byte { o = withOptions(o); o[35] = 0; return o }), drop, headerErrors},
		{"wrong checksum", b.changed(four, 64, func(o []byte) []byte { o[41] ^= 1; return o }), drop, payloadErrors},
		{"a bit of payload, 1518", b.changed(four, 1518, func(o []byte) []byte { o[777] ^= 4; return o }), drop, payloadErrors},
		{"a bit of address", b.changed(six, 84, func(o []byte) []byte { o[30] ^= 4; return o }), drop, payloadErrors},
		{"no UDP checksum in IPv6", b.changed(six, 84, func(o []byte) []byte { o[60], o[61] = 0, 0; return o }), drop, payloadErrors},
		{"not announced", b.frame(stream(2, false, 0), 64), pass, unknown},
		{"beyond all streams", b.changed(four, 64, func(o []byte) []byte { o[42] = 0xff; return o }), pass, foreignOrUnknown},
		{"zeros for a stamp", b.changed(four, 64, func(o []byte) []byte { clear(o[42:]); return o }), pass, foreign},
		{"a time next year but one", b.changed(four, 64, func(o []byte) []byte { o[52]++; o[52]++; o[52]++; return o }), pass, foreign},
		{"too many ns", b.changed(four, 64, func(o []byte) []byte { o[56] = 0xff; return o }), pass, foreign},
		{"a fragment", b.changed(four, 64, func(o []byte) []byte { o[20] |= 0x20; return o }), pass, foreign},
		{"TCP", b.changed(four, 64, func(o []byte) []byte { o[23] = 6; return o }), pass, foreign},
		{"ARP", b.changed(four, 64, func(o []byte) []byte { o[13] = 6; return o }), pass, foreign},
		{"UDP length too long", b.changed(four, 64, func(o []byte) []byte { o[39]++; return o }), pass, foreign},
		{"lengths beyond the frame", b.changed(four, 64, func(o []byte) []byte { o[17]++; o[39]++; return o }), pass, foreign},
		{"header length 0", b.changed(four, 64, func(o []byte) []byte { o[14] = 0x40; return o }), pass, foreign},
		{"shorter than a stamp", b.changed(four, 64, func(o []byte) []byte { o[17], o[39] = 45, 25; return o }), pass, foreign},
		{"only Ethernet", func() []byte { return make([]byte, 14) }, pass, foreign},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			before, err := b.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			octets := test.octets()
			if got := b.inject(octets); got != test.want {
				t.Errorf("verdict %d, want %d", got, test.want)
			}
			after, err := b.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			if grown := test.expect(after) - test.expect(before); grown != 1 {
				t.Errorf("the counter grew by %d", grown)
			}
			sum := func(a tester.Analysis) uint64 {
				return a.Foreign + a.Unknown + a.Streams[0].Received + a.Streams[1].Received
			}
			if sum(after)-sum(before) != 1 {
				t.Errorf("the frame was counted %d times", sum(after)-sum(before))
			}
		})
	}
}

func received(slot int) func(tester.Analysis) uint64 {
	return func(a tester.Analysis) uint64 { return a.Streams[slot].Unique + a.Streams[slot].Duplicates }
}
func payloadErrors(a tester.Analysis) uint64    { return a.Streams[0].PayloadErrors }
func headerErrors(a tester.Analysis) uint64     { return a.Streams[0].HeaderErrors }
func unknown(a tester.Analysis) uint64          { return a.Unknown }
func foreign(a tester.Analysis) uint64          { return a.Foreign }
func foreignOrUnknown(a tester.Analysis) uint64 { return a.Foreign + a.Unknown }

func (b *bench) frame(s tester.Stream, size int) func() []byte {
	return b.changed(s, size, func(octets []byte) []byte { return octets })
}

func (b *bench) changed(s tester.Stream, size int, change func([]byte) []byte) func() []byte {
	return func() []byte {
		template := build(b.t, s, size)
		return change(template.Fill(make([]byte, len(template.Octets)), 0, b.now(), false))
	}
}

// headerSum writes an IPv4 header's checksum, word by word (RFC 791, RFC 1071).
func headerSum(octets []byte) []byte {
	sum := uint32(0)
	octets[24], octets[25] = 0, 0
	for at := 14; at < 14+int(octets[14]&0xf)*4; at += 2 {
		sum += uint32(binary.BigEndian.Uint16(octets[at:]))
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(octets[24:], ^uint16(sum))
	return octets
}

// withOptions inserts four octets of options (no operation) into an IPv4 header.
func withOptions(octets []byte) []byte {
	out := append(append(append([]byte{}, octets[:34]...), 1, 1, 1, 1), octets[34:]...)
	out[14] = 0x46
	binary.BigEndian.PutUint16(out[16:], uint16(len(out)-14))
	return headerSum(out)
}

func TestPassAndCapture(t *testing.T) {
	b, frames := captured(t, append(append(far(0, 39), 41), far(42, 80)...))
	if len(frames) != 33 {
		t.Fatalf("captured %d frames, want 16 before, the one in error and 16 after", len(frames))
	}
	template := build(t, stream(7, false, 0), 400)
	for i, f := range frames {
		want, reason := uint64(24+i), "context"
		if i >= 16 {
			want++
		}
		if i == 16 {
			reason = "gap"
		}
		if f.Sequence != want || f.Reason != reason || f.Stream != 7 || f.Length != 396 || len(f.Data) != 256 || f.At == 0 {
			t.Errorf("frame %d: sequence %d, %s, stream %d, %d of %d octets at %d; want %d, %s", i, f.Sequence, f.Reason, f.Stream, len(f.Data), f.Length, f.At, want, reason)
		}
		if diff := cmp.Diff(template.Octets[:40], f.Data[:40]); diff != "" {
			t.Errorf("frame %d, header (-sent +captured):\n%s", i, diff)
		}
	}
	if again, err := b.Captured(); err != nil || len(again) != 0 {
		t.Errorf("captured again: %d frames, %v", len(again), err)
	}
}

// captured injects frames of stream 7 with these sequence numbers and returns the frames captured
// around the error. Each CPU keeps its own frames, so a move of the thread to another CPU restarts
// the sequence.
func captured(t *testing.T, sequences []uint64) (*bench, []tester.CapturedFrame) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	template := build(t, stream(7, false, 0), 400)
	for range 20 {
		b := newBench(t, Options{Streams: []uint16{7}, Pass: true, Capture: true}, false)
		first, moved := currentCPU(t), false
		for _, s := range sequences {
			if verdict := b.inject(template.Fill(make([]byte, 396), s, b.now(), false)); verdict != pass {
				t.Fatalf("verdict %d", verdict)
			}
			moved = moved || currentCPU(t) != first
		}
		if moved {
			continue
		}
		frames, err := b.Captured()
		if err != nil {
			t.Fatal(err)
		}
		return b, frames
	}
	testutil.Need(t, "cpu-affinity", errors.New("the thread was moved in each of 20 attempts"))
	return nil, nil
}

// currentCPU returns the CPU that this thread runs on.
func currentCPU(t *testing.T) (number uint32) {
	t.Helper()
	if _, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&number)), 0, 0); errno != 0 {
		t.Fatal(errno)
	}
	return number
}
