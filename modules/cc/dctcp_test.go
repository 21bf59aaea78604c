// SPDX-License-Identifier: Apache-2.0

package cc

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"weir/kernel/testutil"
	"weir/modules/cc/internal/wire"
)

// TestDCTCPFollowsRFC8257 transfers data over a link that marks a share of the packets, and checks
// every step of the sender and every acknowledgment of the receiver against the RFC.
func TestDCTCPFollowsRFC8257(t *testing.T) {
	control := install(t, Options{Trace: true})
	trace, err := Follow[Event](control)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = trace.Close() }()
	for _, test := range []struct {
		marks, period uint32
		octets        int
	}{{0, 1, 4 << 20}, {1, 64, 4 << 20}, {1, 8, 2 << 20}, {3, 6, 2 << 20}, {1, 1, 256 << 10}} {
		t.Run(fmt.Sprintf("%d of %d packets marked", test.marks, test.period), func(t *testing.T) {
			p := newPath(t)
			if err := p.wire.Mark(test.marks, test.period); err != nil {
				t.Fatal(err)
			}
			sender, receiver := p.connect(t, control.Name(), control.Name())
			transfer(t, testutil.Rand(t), sender, receiver, test.octets)
			segments, err := p.wire.Segments()
			if err != nil {
				t.Fatal(err)
			}
			steps := events(t, trace, sender)
			alpha := checkSender(t, steps)
			checkAcknowledgments(t, steps, segments)
			marked := checkEcho(t, segments)
			t.Logf("%d segments, %d steps, %d octets marked, alpha %.4f", len(segments), len(steps), marked, alpha)
			switch {
			case test.marks == 0 && (marked != 0 || alpha > 0.9):
				t.Errorf("without marks %d octets were echoed and alpha is %v", marked, alpha)
			case test.marks == test.period && (marked != uint64(test.octets) || alpha != 1):
				t.Errorf("all was marked, %d octets were echoed and alpha is %v", marked, alpha)
			case test.marks > 0 && marked == 0:
				t.Error("no mark was echoed")
			}
		})
	}
}

// checkSender evaluates the RFC's equations beside the control's steps and returns the last alpha.
func checkSender(t *testing.T, steps []Event) float64 {
	t.Helper()
	if len(steps) == 0 || steps[0].Kind != Start {
		t.Fatal("the trace does not begin with the start of the connection")
	}
	oracle := newEstimator(steps[0].Una)
	una := steps[0].Una
	var last *Event
	for i, step := range steps[1:] {
		switch step.Kind {
		case Ack:
			if step.Acked != step.Una-una {
				t.Fatalf("step %d counts %d octets, SND.UNA moved by %d", i, step.Acked, step.Una-una)
			}
			una = step.Una
			oracle.ack(step.Una, step.Next, step.Acked, step.Echo)
			if uint64(step.Alpha) != oracle.scaled || step.WindowEnd != oracle.windowEnd {
				t.Fatalf("step %d: alpha %d, window end %d; RFC 8257, 4.2: %d, %d", i, step.Alpha, step.WindowEnd, oracle.scaled, oracle.windowEnd)
			}
			if math.Abs(float64(step.Alpha)-oracle.alpha*One) > rounding {
				t.Fatalf("step %d: alpha %d; RFC 8257, 3.3: %.1f", i, step.Alpha, oracle.alpha*One)
			}
		case Reduce:
			want := reduced(step.Window, oracle.alpha)
			if slack := 0.5 + float64(step.Window)*rounding/(2*One); math.Abs(float64(step.Threshold)-want) > slack {
				t.Errorf("step %d: window %d becomes %d; RFC 8257, 3.3: %.2f", i, step.Window, step.Threshold, want)
			}
			if last != nil && after(last.Next, step.Una) {
				t.Errorf("step %d: reduced twice within a window of data, %d octets after the other", i, step.Next-last.Next)
			}
			last = &step
		}
	}
	return oracle.alpha
}

// ack is a traced acknowledgment.
type ack struct {
	una  uint32
	echo bool
}

// advancing lists the acknowledgments on the wire that cover new data after start.
func advancing(start uint32, segments []wire.Segment) (list []ack) {
	for _, s := range segments {
		if !s.Sent && !s.SYN && after(s.Sequence, start) {
			start = s.Sequence
			list = append(list, ack{start, s.Echo})
		}
	}
	return list
}

// checkAcknowledgments compares the sender's trace with the acknowledgments on the wire. The kernel
// merges acknowledgments that wait for the socket if they agree on ECE.
func checkAcknowledgments(t *testing.T, steps []Event, segments []wire.Segment) {
	t.Helper()
	passed := advancing(steps[0].Una, segments)
	for i, step := range steps {
		if step.Kind != Ack || step.Acked == 0 {
			continue
		}
		for joined := true; joined; {
			if len(passed) == 0 || after(passed[0].una, step.Una) {
				t.Fatalf("step %d processes an acknowledgment that did not pass", i)
			}
			if passed[0].echo != step.Echo {
				t.Fatalf("step %d has ECE %t, and covers an acknowledgment with %t", i, step.Echo, passed[0].echo)
			}
			joined = passed[0].una != step.Una
			passed = passed[1:]
		}
	}
	if len(passed) > 0 {
		t.Errorf("%d acknowledgments were not processed", len(passed))
	}
}

// checkEcho requires that all data was ECN-capable and that each byte was acknowledged with the CE
// state of its arrival. It returns the number of marked bytes.
func checkEcho(t *testing.T, segments []wire.Segment) (octets uint64) {
	t.Helper()
	var marked []bool // by distance from the first byte
	var start, end uint32
	for i, s := range segments {
		switch {
		case s.Sent && s.SYN:
			start, end = s.Sequence+1, s.Sequence+1
			if !s.Capable {
				t.Error("the SYN is not ECN-capable")
			}
		case s.Sent && s.Octets > 0 && after(s.Sequence+s.Octets, end): // no retransmission
			if !s.Capable {
				t.Fatalf("segment %d is not ECN-capable", i)
			}
			for ; end != s.Sequence+s.Octets; end++ {
				marked = append(marked, s.Marked)
			}
		}
	}
	at := start
	for i, a := range advancing(start, segments) {
		for ; at != a.una; at++ {
			if marked[at-start] != a.echo {
				t.Fatalf("acknowledgment %d with ECE %t covers octet %d, which arrived with CE %t", i, a.echo, at-start, marked[at-start])
			}
			if a.echo {
				octets++
			}
		}
	}
	return octets
}

// afterDecay transfers data until alpha is small, so that the two kinds of reduction differ, then
// again after f.
func afterDecay(t *testing.T, f func(p *path) error) []Event {
	t.Helper()
	control := install(t, Options{Trace: true})
	trace, err := Follow[Event](control)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = trace.Close() }()
	p := newPath(t)
	sender, receiver := p.connect(t, control.Name(), control.Name())
	random := testutil.Rand(t)
	for alpha := uint32(One); alpha > One/4; {
		transfer(t, random, sender, receiver, 4<<20)
		steps := events(t, trace, sender)
		alpha = steps[len(steps)-1].Alpha
	}
	if err := f(p); err != nil {
		t.Fatal(err)
	}
	transfer(t, random, sender, receiver, 4<<20)
	return events(t, trace, sender)
}

func TestDCTCPHalvesAfterLoss(t *testing.T) {
	steps, found := afterDecay(t, func(p *path) error { return p.wire.Lose(20) }), false
	for i, step := range steps {
		if step.Kind != Reduce || i+1 == len(steps) {
			continue
		}
		found = true
		for _, next := range steps[i+1:] {
			if next.Kind == Ack {
				if want := max(step.Window/2, 2); next.Threshold != want {
					t.Errorf("after loss at a window of %d the threshold is %d, not %d", step.Window, next.Threshold, want)
				}
				break
			}
		}
	}
	if !found {
		t.Error("the loss did not reduce the window")
	}
}

// TestLossWidensAReduction loses a packet just before a reduction by alpha, which becomes a
// reduction for loss: the window ends at half of its former value and is not reduced again from
// there.
func TestLossWidensAReduction(t *testing.T) {
	steps := afterDecay(t, func(p *path) error { return errors.Join(p.wire.Lose(20), p.wire.Refuse(21)) })
	for i, step := range steps {
		if step.Kind != Reduce {
			continue
		}
		if step.Threshold <= step.Window/2 {
			t.Fatalf("the first reduction is from %d to %d already", step.Window, step.Threshold)
		}
		for _, next := range steps[i+1:] {
			if next.Kind == Ack && next.Threshold == step.Window/2 {
				return
			}
		}
		t.Fatalf("the window was %d, and the threshold never became half of it", step.Window)
	}
	t.Error("nothing reduced the window")
}
