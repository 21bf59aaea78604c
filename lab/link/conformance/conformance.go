// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"weir/kernel/testutil"
	"weir/lab/link"
	"weir/lab/link/loss"
)

// Case names one thing that a carrier must do.
type Case string

const (
	Transparent Case = "transparent"
	Jumbo       Case = "jumbo"
	Rate        Case = "rate"
	Delay       Case = "delay"
	Jitter      Case = "jitter"
	KeepOrder   Case = "keep-order"
	Independent Case = "independent-loss"
	Gilbert     Case = "gilbert-elliott-loss"
	EveryNth    Case = "every-nth-loss"
	Duplicate   Case = "duplicate"
	Reorder     Case = "reorder"
	Corrupt     Case = "corrupt"
	ECN         Case = "ecn"
	Packets     Case = "queue-packets"
	Bytes       Case = "queue-bytes"
	TCP         Case = "tcp-segments"
	TCPPackets  Case = "tcp-fills-packets"
	TCPBytes    Case = "tcp-fills-bytes"
	CoDel       Case = "codel"
	FQCoDel     Case = "fq-codel"
	CAKE        Case = "cake"
	PIE         Case = "pie"
	Marks       Case = "fq-codel-marks"
	Schedule    Case = "schedule"
	Detach      Case = "detach"
)

// quiet ends a collection: nothing that is still to come is this late.
const (
	quiet     = time.Second
	quietLoss = 400 * time.Millisecond // where frames are missing by design and nothing is delayed
)

// Run runs the suite on a carrier. refused lists the cases that its Check must reject.
func Run(t *testing.T, carrier link.Carrier, refused ...Case) {
	testutil.NeedRoot(t)
	b := newBench(t, carrier, 1500)
	cases := []struct {
		name    Case
		forward link.Direction // argument of Check
		run     func(*testing.T, *bench, link.Direction)
	}{
		{Transparent, link.Direction{}, transparent},
		{Rate, link.Direction{Rate: 20e6, Queue: link.Queue{Packets: 1000}}, rate},
		{Delay, link.Direction{Delay: 30 * time.Millisecond}, delay},
		{Jitter, link.Direction{Delay: 20 * time.Millisecond, Jitter: 15 * time.Millisecond, Seed: 1}, jitter},
		{KeepOrder, link.Direction{Rate: 100e6, Delay: 20 * time.Millisecond, Jitter: 15 * time.Millisecond, KeepOrder: true, Seed: 1}, keepOrder},
		{Independent, link.Direction{Loss: loss.Of(loss.Independent{Probability: 0.1}), Seed: 2}, independent},
		{Gilbert, link.Direction{Loss: loss.Of(loss.Gilbert{P: 0.05, R: 0.3, H: 0.1, K: 0.99}), Seed: 3}, gilbert},
		{EveryNth, link.Direction{Loss: loss.Of(loss.EveryNth{Nth: 5})}, everyNth},
		{Duplicate, link.Direction{Duplicate: 0.2, Seed: 4}, duplicate},
		{Reorder, link.Direction{Delay: 300 * time.Millisecond, Reorder: 0.25, Seed: 5}, reorder},
		{Corrupt, link.Direction{Corrupt: 1, Seed: 6}, corrupt},
		{ECN, link.Direction{Rate: 2e6, Queue: link.Queue{Bytes: 100000, ECN: 5000}}, ecn},
		{Packets, link.Direction{Rate: 200e3, Queue: link.Queue{Packets: 5}}, packets},
		{Bytes, link.Direction{Rate: 200e3, Queue: link.Queue{Bytes: 5000}}, octets},
		{TCP, link.Direction{Rate: 500e6, Delay: time.Millisecond, Queue: link.Queue{Packets: 1000}}, tcpSegments},
		{TCPPackets, link.Direction{Rate: 10e6, Delay: 10 * time.Millisecond, Queue: link.Queue{Packets: 20}}, tcpQueue},
		{TCPBytes, link.Direction{Rate: 10e6, Delay: 10 * time.Millisecond, Queue: link.Queue{Bytes: 30000}}, tcpQueue},
		{CoDel, link.Direction{Rate: 2e6, Delay: time.Millisecond, Queue: link.Queue{Discipline: link.CoDel, Packets: 1000}}, managed},
		{FQCoDel, link.Direction{Rate: 2e6, Delay: time.Millisecond, Queue: link.Queue{Discipline: link.FQCoDel, Packets: 1000}}, managed},
		{PIE, link.Direction{Rate: 2e6, Delay: time.Millisecond, Queue: link.Queue{Discipline: link.PIE, Packets: 1000}, Seed: 7}, managed},
		{CAKE, link.Direction{Rate: 2e6, Delay: time.Millisecond, Queue: link.Queue{Discipline: link.CAKE}}, managed},
		{Marks, link.Direction{Rate: 2e6, Delay: time.Millisecond, Queue: link.Queue{Discipline: link.FQCoDel, Packets: 1000, Mark: true}}, marks},
		{Schedule, link.Direction{Rate: 10e6, Delay: time.Millisecond, Queue: link.Queue{Packets: 1000},
			Schedule: []link.Step{{For: time.Hour, BitsPerSecond: 1e6, Delay: 200 * time.Millisecond, Loss: loss.Of(loss.EveryNth{Nth: 4})}}}, schedule},
		{Detach, link.Direction{Rate: 100e6, Delay: time.Millisecond, Queue: link.Queue{Packets: 100}}, detach},
	}
	for _, c := range cases {
		t.Run(string(c.name), func(t *testing.T) {
			err := carrier.Check(link.Cable{Name: "cable", A: endA, B: endB, Forward: c.forward})
			if slices.Contains(refused, c.name) {
				if err == nil {
					t.Fatalf("%s cannot do this and Check does not say so", carrier.Mechanism())
				}
				return
			}
			c.run(t, b, c.forward)
		})
	}
	t.Run(string(Jumbo), func(t *testing.T) { jumbo(t, carrier) })
}

func transparent(t *testing.T, b *bench, d link.Direction) {
	carrying := b.carry(t, d, d)
	frames := samples()
	slices.SortStableFunc(frames, byType)
	for _, way := range []struct{ from, to string }{{"a", "b"}, {"b", "a"}} {
		from, to := b.a, b.b
		if way.from == "b" {
			from, to = b.b, b.a
		}
		_, got := exchange(t, from, to, frames, len(frames), quiet)
		// Packet sockets get those frames of a batch later that no protocol of the kernel takes.
		slices.SortStableFunc(got, func(x, y arrival) int { return byType(x.frame, y.frame) })
		same(t, way.from+" to "+way.to, frames, got)
	}
	s := status(t, carrying)
	if s.Forward.Overruns+s.Reverse.Overruns > 0 {
		t.Errorf("%d frames overran", s.Forward.Overruns+s.Reverse.Overruns)
	}
}

// byType compares the EtherTypes of two frames.
func byType(a, b []byte) int { return bytes.Compare(a[12:14], b[12:14]) }

// same checks that exactly these frames arrived, in order.
func same(t *testing.T, what string, frames [][]byte, got []arrival) {
	t.Helper()
	if len(got) != len(frames) {
		t.Errorf("%s: %d frames arrived of %d", what, len(got), len(frames))
	}
	for i := range min(len(got), len(frames)) {
		if !bytes.Equal(got[i].frame, frames[i]) {
			t.Errorf("%s: frame %d arrived as\n%x, was sent as\n%x", what, i, got[i].frame, frames[i])
			return
		}
	}
}

func jumbo(t *testing.T, carrier link.Carrier) {
	b := newBench(t, carrier, 9000)
	b.carry(t, link.Direction{}, link.Direction{})
	var frames [][]byte
	for _, length := range []int{60, 1514, 3000, 4096, 7000, 9014} {
		frames = append(frames, numbered(3, length)...)
	}
	_, got := exchange(t, b.a, b.b, frames, len(frames), quiet)
	same(t, "jumbo", frames, got)
}

func rate(t *testing.T, b *bench, d link.Direction) {
	b.carry(t, d, link.Direction{})
	const count, length = 300, 1000
	frames := numbered(count, length)
	sent, got := exchange(t, b.a, b.b, frames, count, quiet)
	same(t, "rate", frames, got)
	if len(got) != count {
		return
	}
	least := time.Duration(float64((count-1)*(length+link.FrameOverhead)) * 8e9 / float64(d.Rate))
	if took := got[count-1].at - sent[0]; took < least {
		t.Errorf("%d frames took %s, at %s they take at least %s", count, took, d.Rate, least)
	}
}

func delay(t *testing.T, b *bench, d link.Direction) {
	back := link.Direction{Delay: d.Delay / 2}
	b.carry(t, d, back)
	frames := numbered(50, 200)
	sent, got := exchange(t, b.a, b.b, frames, len(frames), quiet)
	atLeast(t, "forward", sent, got, d.Delay)
	sent, got = exchange(t, b.b, b.a, frames, len(frames), quiet)
	atLeast(t, "reverse", sent, got, back.Delay)
}

func atLeast(t *testing.T, what string, sent []time.Duration, got []arrival, least time.Duration) {
	t.Helper()
	if len(got) != len(sent) {
		t.Errorf("%s: %d frames arrived of %d", what, len(got), len(sent))
	}
	for _, a := range got {
		if took := a.at - sent[number(a)]; took < least {
			t.Errorf("%s: frame %d took %s, want at least %s", what, number(a), took, least)
			return
		}
	}
}

// overtaken counts frames that arrive after a later one.
func overtaken(got []arrival) (n int) {
	highest := -1
	for _, a := range got {
		if number(a) < highest {
			n++
		}
		highest = max(highest, number(a))
	}
	return n
}

// firstOvertaken describes the first frame that arrives after a later one.
func firstOvertaken(sent []time.Duration, got []arrival) string {
	last := got[0]
	for _, a := range got {
		if number(a) < number(last) {
			return fmt.Sprintf("frame %d, sent at %s, arrived at %s, and frame %d, sent at %s, at %s",
				number(a), sent[number(a)], a.at, number(last), sent[number(last)], last.at)
		}
		last = a
	}
	return "none"
}

func jitter(t *testing.T, b *bench, d link.Direction) {
	b.carry(t, d, link.Direction{})
	frames := numbered(500, 100)
	sent, got := exchange(t, b.a, b.b, frames, len(frames), quiet)
	atLeast(t, "jitter", sent, got, d.Delay-d.Jitter)
	if overtaken(got) == 0 {
		t.Error("no frame of a burst overtook another, with a jitter that is much longer than the burst's gaps")
	}
}

func keepOrder(t *testing.T, b *bench, d link.Direction) {
	b.carry(t, d, link.Direction{})
	frames := numbered(500, 100)
	sent, got := exchange(t, b.a, b.b, frames, len(frames), quiet)
	atLeast(t, "keep order", sent, got, d.Delay-d.Jitter)
	if n := overtaken(got); n > 0 {
		t.Errorf("%d frames were overtaken: %s", n, firstOvertaken(sent, got))
	}
}

// within checks a count against its expectation, with 4 standard deviations and one frame of
// tolerance.
func within(t *testing.T, what string, got int, want, deviation float64) {
	t.Helper()
	if math.Abs(float64(got)-want) > 4*deviation+1 {
		t.Errorf("%s: %d, want %.1f ± %.1f (4 sigma)", what, got, want, 4*deviation+1)
	}
}

// schedule checks that steps begin with Begin, and no earlier.
func schedule(t *testing.T, b *bench, d link.Direction) {
	carrying := b.carry(t, d, link.Direction{})
	frames := numbered(40, 1000)
	_, got := exchange(t, b.a, b.b, frames, len(frames), quiet)
	same(t, "before the schedule", frames, got)
	must(t, carrying.Begin())
	sent, got := exchange(t, b.a, b.b, frames, len(frames)*3/4, quiet)
	if len(got) != len(frames)*3/4 {
		t.Fatalf("%d of %d frames arrived; every fourth must be lost", len(got), len(frames))
	}
	step := d.Schedule[0]
	each := time.Duration(float64(1000+link.FrameOverhead) * 8e9 / step.BitsPerSecond)
	for _, a := range got {
		n := number(a)
		if took, least := a.at-sent[0], time.Duration(n+1)*each+step.Delay; took < least {
			t.Fatalf("frame %d came after %s, and the step lets it pass after %s", n, took, least)
		}
	}
}
