package generator

import (
	"testing"
	"time"

	"weir/internal/testutil"
	"weir/tester"
)

func TestLiveEveryFrameArrives(t *testing.T) {
	testutil.NeedRoot(t)
	testutil.Need(t, "live-frames", LiveFrames())
	r := newRig(t, 0)
	schedule := tester.Schedule{Streams: mixes(), Duration: 20 * time.Second, MaxFrames: 50_000}
	a := r.analyze(t, schedule)
	g := r.send(t, Live, schedule)
	t.Logf("refused %d, ended %s", g.Refused, g.Ended)
	if g.Ended != "frame limit" {
		t.Errorf("ended by %s", g.Ended)
	}
	account(t, a, g)
}
