// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"context"
	"testing"

	"weir/tester"
	"weir/tester/session"
)

func TestKeptAnalyzersCountEachRunAlone(t *testing.T) {
	c := newCable(t)
	var engine session.Kept
	xdp := map[uint32]bool{}
	for i := range 20 {
		config := c.config(50, tester.Header{})
		config.Engine = &engine
		config.Directions[0].Schedule.Streams[0].ID = uint16((4090 + i) % tester.MaxStreams)
		a, err := session.Run(context.Background(), config)
		if err != nil {
			t.Fatal(err)
		}
		if s := a.Streams[0]; s.Sent.Frames != 50 || s.Received.Received != 50 || s.Lost != 0 {
			t.Errorf("run %d: sent %d, received %d, lost %d; want 50, 50, 0", i, s.Sent.Frames, s.Received.Received, s.Lost)
		}
		d, err := c.r.Device("tg1")
		if err != nil {
			t.Fatal(err)
		}
		xdp[uint32(d.XDP)] = true
	}
	if len(xdp) != 2 || xdp[0] {
		t.Errorf("programs on the receiving port over 20 runs: %v; want one for the first 16 and one for the rest", xdp)
	}
	if err := engine.Close(); err != nil {
		t.Fatal(err)
	}
	if n := c.attached(t); n != 0 {
		t.Errorf("%d XDP programs stay attached", n)
	}
}
