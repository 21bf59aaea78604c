// SPDX-License-Identifier: Apache-2.0

package generator

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"weir/internal/child"
	"weir/internal/fault"
	"weir/kernel/netns"
	"weir/kernel/rtnl"
	"weir/kernel/testutil"
	"weir/tester"
	"weir/tester/analyzer"
	"weir/tester/frame"
)

func TestMain(m *testing.M) {
	child.Main(child.Parts{"flood": flood})
	os.Exit(m.Run())
}

// order is the request to the child.
type order struct{ Namespace, Mechanism string }

// flood is the child that TestKilledControllerStopsSending kills: it sends for minutes.
func flood(in io.Reader, out io.Writer) error {
	var o order
	if err := json.NewDecoder(in).Decode(&o); err != nil {
		return err
	}
	ns, err := netns.Open(o.Namespace)
	if err != nil {
		return err
	}
	schedule := tester.Schedule{Streams: []tester.Stream{stream(1, 64)}, Duration: 5 * time.Minute}
	running, err := StartWith(context.Background(), Port{Namespace: ns, Device: "out"}, schedule, o.Mechanism)
	if err != nil {
		return err
	}
	_, err = running.Wait()
	return err
}

func TestEveryFrameArrives(t *testing.T) {
	mechanisms(t, func(t *testing.T, mechanism string) {
		r := newRig(t, 0)
		schedule := tester.Schedule{Streams: mixes(), Duration: 20 * time.Second, MaxFrames: 30_000}
		a := r.analyze(t, schedule)
		g := r.send(t, mechanism, schedule)
		if g.Ended != "frame limit" || g.Mechanism != mechanism {
			t.Errorf("ended by %s with %s", g.Ended, g.Mechanism)
		}
		account(t, a, g)
		if left(t, r.port) != 0 {
			t.Error("an XDP program is left on the sending device")
		}
	})
}

func TestManyPacedStreams(t *testing.T) {
	mechanisms(t, func(t *testing.T, mechanism string) {
		r := newRig(t, 0)
		schedule := tester.Schedule{Duration: 300 * time.Millisecond, Policy: tester.CatchUp, Batch: 16}
		for id := range uint16(300) {
			s := stream(id*13, 64)
			s.Gap = time.Duration(1+id%7) * 3 * time.Millisecond
			s.Start = time.Duration(id) * 100 * time.Microsecond
			s.Burst = int(id % 4)
			schedule.Streams = append(schedule.Streams, s)
		}
		schedule.Streams[299].Gap = 0 // takes the remaining slots from its start on
		a := r.analyze(t, schedule)
		g := r.send(t, mechanism, schedule)
		if g.Ended != "schedule" {
			t.Errorf("ended by %s", g.Ended)
		}
		account(t, a, g)
		var paced uint64
		for i, s := range g.Sent[:299] {
			p := schedule.Streams[i]
			period := p.Gap * time.Duration(max(p.Burst, 1))
			most := uint64((schedule.Duration-p.Start)/period+1) * uint64(max(p.Burst, 1))
			if s.Frames > most || s.Frames == 0 {
				t.Errorf("stream %d sent %d frames: its pace allows %d", s.Stream, s.Frames, most)
			}
			paced += (s.Frames + uint64(max(p.Burst, 1)) - 1) / uint64(max(p.Burst, 1))
		}
		if g.Lateness.Count() != paced {
			t.Errorf("%d latenesses of %d paced frames or bursts", g.Lateness.Count(), paced)
		}
	})
}

func TestSkipLeavesOutWhatIsLate(t *testing.T) {
	mechanisms(t, func(t *testing.T, mechanism string) {
		r := newRig(t, 0)
		s := stream(1, 64)
		s.Gap = 10 * time.Nanosecond // too fast for any machine
		schedule := tester.Schedule{Streams: []tester.Stream{s}, Duration: 50 * time.Millisecond, Policy: tester.Skip}
		a := r.analyze(t, schedule)
		g := r.send(t, mechanism, schedule)
		account(t, a, g)
		sent := g.Sent[0]
		slots := (uint64(schedule.Duration) + g.Lateness.Max()) / uint64(s.Gap)
		if sent.Skipped == 0 || sent.Frames+sent.Skipped > slots+1 {
			t.Errorf("sent %d and skipped %d of %d slots", sent.Frames, sent.Skipped, slots)
		}
		schedule.Policy = tester.CatchUp
		if g := r.send(t, mechanism, schedule); g.Sent[0].Skipped != 0 || g.Sent[0].Late == 0 {
			t.Errorf("catching up skipped %d frames, %d were late", g.Sent[0].Skipped, g.Sent[0].Late)
		}
	})
}

func TestSkipToleratesWhatIsALittleLate(t *testing.T) {
	mechanisms(t, func(t *testing.T, mechanism string) {
		r := newRig(t, 0)
		s := stream(1, 64)
		s.Gap = 10 * time.Nanosecond // too fast for any machine
		schedule := tester.Schedule{Streams: []tester.Stream{s}, Duration: 50 * time.Millisecond, Policy: tester.Skip, Tolerance: time.Hour}
		r.analyze(t, schedule)
		if sent := r.send(t, mechanism, schedule).Sent[0]; sent.Skipped != 0 || sent.Late == 0 {
			t.Errorf("skipped %d frames within the tolerance, %d were late", sent.Skipped, sent.Late)
		}
		schedule.Tolerance = time.Microsecond
		if sent := r.send(t, mechanism, schedule).Sent[0]; sent.Skipped == 0 {
			t.Errorf("skipped none of %d frames beyond the tolerance", sent.Frames)
		}
	})
}

func TestCoalescedFramesKeepTheirPace(t *testing.T) {
	r := newRig(t, 0)
	s := stream(1, 64)
	s.Gap = 20 * time.Microsecond
	schedule := tester.Schedule{Streams: []tester.Stream{s}, Duration: 100 * time.Millisecond, Policy: tester.Skip, Coalesce: 500 * time.Microsecond}
	a := r.analyze(t, schedule)
	g := r.send(t, Live, schedule)
	account(t, a, g)
	if most := uint64(schedule.Duration/s.Gap) + 1; g.Sent[0].Frames+g.Sent[0].Skipped > most || g.Sent[0].Frames == 0 {
		t.Errorf("sent %d and skipped %d frames where the pace allows %d", g.Sent[0].Frames, g.Sent[0].Skipped, most)
	}
	// 25 frames wait for each other, so the first of them arrives some 480 µs after it was sent.
	analysis, err := a.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if first := analysis.Streams[0].Delay.Max(); first < uint64(400*time.Microsecond) {
		t.Errorf("the longest delay is %d ns: frames did not wait for those behind them", first)
	}
}

func TestStop(t *testing.T) {
	mechanisms(t, func(t *testing.T, mechanism string) {
		r := newRig(t, 0)
		schedule := tester.Schedule{Streams: []tester.Stream{stream(1, 64)}, Duration: 5 * time.Minute}
		a := r.analyze(t, schedule)
		running, err := StartWith(t.Context(), r.port, schedule, mechanism)
		if err != nil {
			t.Fatal(err)
		}
		testutil.Eventually(t, 5*time.Second, "a frame", func() bool { return running.Progress().Sent[0].Frames > 0 })
		if ended := running.Progress().Ended; ended != "" {
			t.Errorf("a running schedule has ended by %s", ended)
		}
		running.Stop()
		g, err := running.Wait()
		if err != nil || g.Ended != "stopped" {
			t.Errorf("ended by %s, %v", g.Ended, err)
		}
		account(t, a, g)
	})
}

func TestKilledControllerStopsSending(t *testing.T) {
	mechanisms(t, func(t *testing.T, mechanism string) {
		r := newRig(t, 0)
		a := r.analyze(t, tester.Schedule{Streams: []tester.Stream{stream(1, 64)}})
		process, err := child.Start(t.Context(), "flood", os.Stderr)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.NewEncoder(process.In).Encode(order{r.near.Name, mechanism}); err != nil {
			t.Fatal(err)
		}
		received := func() uint64 {
			analysis, err := a.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			return analysis.Streams[0].Received
		}
		testutil.Eventually(t, 10*time.Second, "a frame of the child", func() bool { return received() > 0 })
		killed, err := os.FindProcess(process.PID())
		if err != nil {
			t.Fatal(err)
		}
		if err := killed.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = process.Wait()
		last, same := received(), 0
		testutil.Eventually(t, 5*time.Second, "the end of the frames", func() bool {
			now := received()
			if same++; now != last {
				last, same = now, 0
			}
			return same >= 20 // readings, some ms apart
		})
		if left(t, r.port) != 0 {
			t.Error("an XDP program is left on the sending device")
		}
	})
}

func TestPassProgramAtThePeer(t *testing.T) {
	testutil.NeedRoot(t)
	testutil.Need(t, "live-frames", LiveFrames())
	r := newRig(t, 0)
	schedule := tester.Schedule{Streams: []tester.Stream{stream(1, 64)}, Duration: 10 * time.Second, MaxFrames: 1000}
	running, err := StartWith(t.Context(), r.port, schedule, Live)
	if err != nil {
		t.Fatal(err)
	}
	if g, err := running.Wait(); fault.Of(err) != fault.Testbed || g.Refused < 1000 {
		t.Errorf("without a listening peer: refused %d, %v", g.Refused, err)
	}
	r.port.Peer = &Port{Namespace: r.far, Device: "in"}
	if g := r.send(t, Live, schedule); g.Refused != 0 || g.Sent[0].Frames != 1000 {
		t.Errorf("with a pass program: sent %d, refused %d", g.Sent[0].Frames, g.Refused)
	}
	if left(t, *r.port.Peer) != 0 {
		t.Error("the pass program is left at the peer")
	}
	a, err := analyzer.Attach(r.far, "in", analyzer.Options{Streams: []uint16{1}})
	if err != nil {
		t.Fatal(err)
	}
	account(t, a, r.send(t, Live, schedule)) // the analyzer is already attached
	if left(t, *r.port.Peer) == 0 {
		t.Error("the analyzer was detached")
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if left(t, *r.port.Peer) != 0 {
		t.Error("the analyzer is left at the peer")
	}
}

func TestDeviceGoesDown(t *testing.T) {
	mechanisms(t, func(t *testing.T, mechanism string) {
		r := newRig(t, 0)
		schedule := tester.Schedule{Streams: []tester.Stream{stream(1, 64)}, Duration: 5 * time.Minute}
		a := r.analyze(t, schedule)
		running, err := StartWith(t.Context(), r.port, schedule, mechanism)
		if err != nil {
			t.Fatal(err)
		}
		frames := func() uint64 { return running.Progress().Sent[0].Frames }
		testutil.Eventually(t, 5*time.Second, "a frame", func() bool { return frames() > 0 })
		conn, err := rtnl.Open(r.near)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.SetDown("out"); err != nil {
			t.Fatal(err)
		}
		if mechanism == Live {
			at := frames()
			testutil.Eventually(t, 5*time.Second, "more frames", func() bool { return frames() > at+1000 })
			running.Stop()
		}
		g, err := running.Wait()
		if mechanism == Packet && err == nil || mechanism == Live && (err != nil || g.Refused < 1000) {
			t.Errorf("refused %d, ended by %s, %v", g.Refused, g.Ended, err)
		}
		analysis, err := a.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		if c := analysis.Streams[0]; c.Received+g.Refused > g.Sent[0].Frames+1 {
			t.Errorf("sent %d, received %d, refused %d", g.Sent[0].Frames, c.Received, g.Refused)
		}
	})
}

func TestJumbo(t *testing.T) {
	testutil.NeedRoot(t)
	r := newRig(t, 9000)
	schedule := tester.Schedule{Duration: 20 * time.Second, MaxFrames: 500}
	for i, size := range []int{9000, 4101, 4100, 8999, 64} {
		s := stream(uint16(i), size)
		if i%2 == 1 {
			s = tagged(stream6(uint16(i), size))
		}
		s.Gap = 300 * time.Microsecond
		schedule.Streams = append(schedule.Streams, s)
	}
	a := r.analyze(t, schedule)
	running, err := Start(t.Context(), r.port, schedule)
	if err != nil {
		t.Fatal(err)
	}
	g, err := running.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if g.Mechanism != Packet {
		t.Errorf("jumbo frames sent with %s", g.Mechanism)
	}
	account(t, a, g)
	if _, err := StartWith(t.Context(), r.port, schedule, Live); fault.Of(err) != fault.Usage {
		t.Errorf("live jumbo frames: %v", err)
	}
}

func TestChoose(t *testing.T) {
	sparse, mixed, jumbo, full := stream(1, 64), stream(2, 64), stream(1, 9000), stream(1, 64)
	sparse.Gap = time.Millisecond
	mixed.Stamped, mixed.Payload = false, []byte{1}
	tests := []struct {
		streams []tester.Stream
		live    error
		want    string
	}{
		{[]tester.Stream{full}, nil, Live},
		{[]tester.Stream{full}, fmt.Errorf("no"), Packet},
		{[]tester.Stream{sparse}, nil, Packet},
		{[]tester.Stream{jumbo}, nil, Packet},
		{[]tester.Stream{mixed}, nil, Live},
		{[]tester.Stream{mixed, full}, nil, Packet},
	}
	for i, test := range tests {
		t.Run(fmt.Sprintf("%d streams of %d octets by %s", len(test.streams), test.streams[0].Sizes[0].Size, test.want), func(t *testing.T) {
			plan, err := frame.Plan(tester.Schedule{Streams: test.streams, Duration: time.Second})
			if err != nil {
				t.Fatal(err)
			}
			if got := Choose(plan, test.live); got.Mechanism != test.want || got.Reason == "" {
				t.Errorf("%d: %+v, want %s", i, got, test.want)
			}
		})
	}
}
