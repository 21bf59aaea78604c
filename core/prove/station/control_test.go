// SPDX-License-Identifier: Apache-2.0

package station

import (
	"testing"
	"time"
)

// sendAll sends a full window at once.
func sendAll(c *control, now time.Time) (numbers []uint64) {
	for float64(c.flying()) < c.window {
		numbers = append(numbers, c.send(now))
	}
	return numbers
}

func TestTheWindowGrowsByWhatIsAcknowledged(t *testing.T) {
	c, now := newControl(), time.Unix(0, 0)
	first := sendAll(&c, now)
	if len(first) != firstWindow || c.wait(now) == 0 {
		t.Fatalf("%d left at once, and the next waits for %v", len(first), c.wait(now))
	}
	for _, n := range first {
		c.acknowledge(n, now.Add(10*time.Millisecond))
	}
	if c.window != 2*firstWindow || c.flying() != 0 || c.smoothed != 10*time.Millisecond {
		t.Errorf("after a round trip: %+v", c)
	}
}

// A loss halves the window, once for all datagrams in flight.
func TestLossesHalveTheWindowOnceARoundTrip(t *testing.T) {
	c, now := newControl(), time.Unix(0, 0)
	first := sendAll(&c, now)
	for _, n := range first[5:] {
		c.acknowledge(n, now.Add(10*time.Millisecond))
	}
	if c.flying() != 0 {
		t.Errorf("%d still count as under way", c.flying())
	}
	if most := (firstWindow + 5.0) / 2; c.window > most || c.window < firstWindow/2 || c.threshold != c.window {
		t.Errorf("the window is %.1f, of %.0f at most, and its threshold %.1f", c.window, most, c.threshold)
	}
	before := c.window
	c.acknowledge(first[0], now.Add(11*time.Millisecond)) // late, not lost
	if c.window != before {
		t.Errorf("%.1f after a late one, before %.1f", c.window, before)
	}
}

// After a silence a probe is sent, each time after twice the time; then the window is reset.
func TestSilencesArePersistentCongestion(t *testing.T) {
	c, now := newControl(), time.Unix(0, 0)
	under := len(sendAll(&c, now))
	for n := range persistent {
		before := c.timeout()
		now = now.Add(before)
		if wait := c.wait(now); wait != 0 || c.flying() != under+n || c.timeout() != 2*before {
			t.Fatalf("silence %d: waits %v, %+v", n+1, wait, c)
		}
		c.send(now)
		if c.wait(now) == 0 {
			t.Fatalf("silence %d: a second probe at once", n+1)
		}
	}
	if wait := c.wait(now.Add(c.timeout())); wait != 0 || c.flying() != 0 || c.window != minWindow {
		t.Errorf("waits %v, %+v", wait, c)
	}
}
