// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"testing"
	"time"

	"weir/internal/fault"
	"weir/tester"
	"weir/tester/session"
)

// A machine that sends only a part of the requested frames measures something else. For streams
// that end at once, only skipped frames show that.
func TestAMachineThatCannotSendWhatIsAskedSupportsNoMeasurement(t *testing.T) {
	for _, test := range []struct {
		name            string
		frames, skipped uint64
		span            time.Duration
		stopped         bool
		want            fault.Status
	}{
		{"all", 1000, 0, time.Second, false, fault.OK},
		{"39 %", 390, 610, time.Second, false, fault.Testbed},
		{"39 %, and none was left out", 1000, 0, 2564 * time.Millisecond, false, fault.Testbed},
		{"a moment's pause", 1000, 0, 999 * time.Millisecond, false, fault.OK},
		{"39 %, and stopped", 390, 610, time.Second, true, fault.OK},
	} {
		a := session.Account{Stopped: test.stopped, Streams: []session.Stream{{Name: "one", Asked: 1000,
			Sent: &tester.Sent{Frames: test.frames, Skipped: test.skipped, Last: test.span}}}}
		if err := a.Short(); fault.Of(err) != test.want {
			t.Errorf("%s: %v, want status %d", test.name, err, test.want)
		}
	}
}
