// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"testing"
	"time"

	"weir/kernel/testutil"
	"weir/lab/link"
)

// Frames that are due at once, more than veth's ring of 256 takes, arrive all the same.
func TestABurstLosesNothing(t *testing.T) {
	const count = 1000
	c, a, b := lab(t, link.Direction{Delay: 300 * time.Millisecond}, link.Direction{})
	w := c.ways[0]
	for range count {
		must(t, a.Send(t.Context(), frame))
		c.step()
	}
	testutil.Eventually(t, 10*time.Second, "all frames inside", func() bool {
		c.step()
		return w.counters.Received >= count
	})
	for w.counters.Sent < w.counters.Received || w.to.Unsent() > 0 {
		c.step() // as it does where many frames wait: without a pause between
	}
	got, buffer := 0, make([]byte, 2048)
	testutil.Eventually(t, 10*time.Second, "all frames at the other end", func() bool {
		c.step() // a host's own frame may have been counted for the last of these
		for {
			_, _, ok, err := b.Receive(buffer)
			if err != nil || !ok {
				break
			}
			got++
		}
		return got == count
	})
}
