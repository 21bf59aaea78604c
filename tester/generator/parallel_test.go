// SPDX-License-Identifier: Apache-2.0

package generator

import (
	"errors"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"weir/kernel/rtnl"
	"weir/kernel/testutil"
	"weir/tester"
)

// newQueues is a rig with two queues per veth device: frames sent on two CPUs are received on two.
func newQueues(t *testing.T) *rig {
	t.Helper()
	ip := testutil.Command(t, "ip")
	r := &rig{near: testutil.Namespace(t, "near"), far: testutil.Namespace(t, "far")}
	command := exec.Command(ip, "link", "add", "out", "numtxqueues", "2", "numrxqueues", "2", "type", "veth",
		"peer", "name", "in", "numtxqueues", "2", "numrxqueues", "2", "netns", r.far.Name)
	err := r.near.Do(func() error {
		output, err := command.CombinedOutput()
		if err != nil {
			t.Logf("%s", output)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	near, err := rtnl.Open(r.near)
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	far, err := rtnl.Open(r.far)
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	if err := near.SetUp("out"); err != nil {
		t.Fatal(err)
	}
	if err := far.SetUp("in"); err != nil {
		t.Fatal(err)
	}
	r.port = Port{Namespace: r.near, Device: "out"}
	return r
}

// TestTwoQueuesAtOnce has two generators send the same sequence numbers on two CPUs: the first
// arrival is unique, the other one a duplicate, and no count may be lost between them.
func TestTwoQueuesAtOnce(t *testing.T) {
	testutil.NeedRoot(t)
	testutil.Need(t, "live-frames", LiveFrames())
	if runtime.NumCPU() < 2 {
		testutil.Need(t, "cpu-affinity", errors.New("one CPU alone"))
	}
	r := newQueues(t)
	const frames = 8000 // less than the window
	schedule := tester.Schedule{Duration: 30 * time.Second}
	for id := range uint16(40) {
		s := stream(id, 64)
		s.Frames = frames
		schedule.Streams = append(schedule.Streams, s)
	}
	a := r.analyze(t, schedule)
	before := readDevice(r.port)
	var running [2]Running
	for cpu := range running {
		port := r.port
		port.CPUs = []int{cpu}
		var err error
		if running[cpu], err = StartWith(t.Context(), port, schedule, Live); err != nil {
			t.Fatal(err)
		}
	}
	for _, one := range running {
		if _, err := one.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	refused := readDevice(r.port).errored - before.errored
	t.Logf("refused: %d", refused)
	var counts []tester.Counts
	testutil.Eventually(t, 10*time.Second, "arrival of all frames", func() bool {
		analysis, err := a.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		counts = analysis.Streams
		received := uint64(0)
		for _, c := range counts {
			received += c.Received
		}
		return received+refused >= uint64(2*frames*len(counts))
	})
	for _, c := range counts {
		// Two senders of one identifier: each frame is classified once, and the stream counts a
		// restart.
		if c.Unique+c.Duplicates+c.OutOfWindow+c.Misnumbered != c.Received || c.PayloadErrors != 0 || c.Restarts == 0 {
			t.Errorf("stream %d: received %d, unique %d, duplicates %d, %d payload errors, begun again %d times", c.Stream, c.Received, c.Unique, c.Duplicates, c.PayloadErrors, c.Restarts)
		}
		if c.Delay.Count() != c.Unique+c.Misnumbered || c.Variation.Count() != c.Delay.Count()-1 {
			t.Errorf("stream %d: %d delays, %d variations of %d frames", c.Stream, c.Delay.Count(), c.Variation.Count(), c.Unique)
		}
	}
}

// TestAllStreamsAtOnce sends the maximum number of streams, half of them with a pace.
func TestAllStreamsAtOnce(t *testing.T) {
	mechanisms(t, func(t *testing.T, mechanism string) {
		r := newRig(t, 0)
		schedule := tester.Schedule{Duration: time.Minute}
		for id := range uint16(tester.MaxStreams) {
			s := stream(id, 64)
			s.Frames = uint64(1 + id%5)
			if id%2 == 0 {
				s.Gap = time.Millisecond
			}
			schedule.Streams = append(schedule.Streams, s)
		}
		a := r.analyze(t, schedule)
		g := r.send(t, mechanism, schedule)
		account(t, a, g)
		for i, s := range g.Sent {
			if s.Frames != schedule.Streams[i].Frames {
				t.Errorf("stream %d sent %d of %d frames", s.Stream, s.Frames, schedule.Streams[i].Frames)
			}
		}
		if g.Ended != "schedule" {
			t.Errorf("ended by %s", g.Ended)
		}
	})
}
