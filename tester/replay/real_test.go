// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"weir/internal/fault"
	"weir/kernel/rtnl"
	"weir/kernel/testutil"
)

func pair(t *testing.T) (from, to Port, l *rtnl.Conn) {
	t.Helper()
	left, right := testutil.Namespace(t, "left"), testutil.Namespace(t, "right")
	l, err := rtnl.Open(left)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	r, err := rtnl.Open(right)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	if err := errors.Join(l.AddVeth("tg0", right, "tg1", 0), l.SetUp("tg0"), r.SetUp("tg1")); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, 5*time.Second, "carrier", func() bool {
		device, err := l.Device("tg0")
		return err == nil && device.Running
	})
	return Port{left, "tg0"}, Port{right, "tg1"}, l
}

func read(t *testing.T, frames [][]byte) Capture {
	t.Helper()
	c, err := Read(bytes.NewReader(capture(t, true, 100*time.Microsecond, frames)))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEveryFrameOfACaptureArrivesInOrder(t *testing.T) {
	from, to, _ := pair(t)
	for _, speed := range []float64{1, 4, 0} {
		r, err := Run(context.Background(), Config{Capture: read(t, packets(t, 100)), From: from, To: to, Speed: speed, Rounds: 3})
		if err != nil || r.Check() != nil {
			t.Fatal(err, r.Check())
		}
		a := r.Arrived
		if r.Sent != 900 || a.Frames != 900 || a.Missing+a.Extra+a.Reordered+a.Dropped != 0 {
			t.Errorf("speed %v: sent %d, %+v", speed, r.Sent, a)
		}
		timed := uint64(0)
		if speed > 0 {
			timed = 900
			if r.Elapsed < r.Span {
				t.Errorf("speed %v: %s for %s: frames left early", speed, r.Elapsed, r.Span)
			}
		}
		if r.Lateness.Count() != timed || timed > 0 && a.Spacing.Count() != timed-1 || r.Late > r.Sent {
			t.Errorf("speed %v: %d times, %d spacings", speed, r.Lateness.Count(), a.Spacing.Count())
		}
	}
}

func TestFramesAboveTheMTUAreRefusedWithThePlace(t *testing.T) {
	from, _, l := pair(t)
	if err := l.SetMTU("tg0", 1280); err != nil {
		t.Fatal(err)
	}
	c := read(t, append(packets(t, 1), make([]byte, 1400)))
	if _, err := Run(context.Background(), Config{Capture: c, From: from, Speed: 1}); fault.Of(err) != fault.Usage {
		t.Errorf("status %d: %v", fault.Of(err), err)
	}
}

func TestAReplayThatIsEndedSaysSo(t *testing.T) {
	from, to, _ := pair(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r, err := Run(ctx, Config{Capture: read(t, packets(t, 1)), From: from, To: to, Speed: 1})
	if err != nil || !r.Stopped || r.Sent != 0 || r.Check() == nil {
		t.Errorf("%+v, %v", r, err)
	}
}
