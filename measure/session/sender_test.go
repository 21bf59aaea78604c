// SPDX-License-Identifier: Apache-2.0

package session

import (
	"testing"
	"time"

	"weir/measure/websocket"
)

func TestMessagesTakeAtMost50ms(t *testing.T) {
	for _, c := range []struct {
		size  int
		rate  uint64 // byte/s
		want  int
		count int
	}{
		{firstMessage, 0, firstMessage, 1},                        // at the start
		{firstMessage, 62_500, minMessage, 1},                     // 0.5 Mbit/s
		{1 << 20, 62_500, minMessage, 1},                          // a rate that fell
		{1 << 16, 1_250_000, 1 << 15, 1},                          // 10 Mbit/s: 62,500 bytes in 50 ms
		{1 << 20, 12_500_000, 1 << 19, 1},                         // 100 Mbit/s
		{1 << 20, 125_000_000, 1 << 20, 1},                        // 1 Gbit/s
		{1 << 20, 1_250_000_000, 1 << 20, 4},                      // 10 Gbit/s
		{1 << 19, 1_250_000_000, 1 << 19, 1},                      // still growing
		{websocket.MaxBulk, 1 << 40, websocket.MaxBulk, maxCount}, // no larger messages
	} {
		s := &sender{size: c.size}
		if size, count := s.plan(c.rate); size != c.want || count != c.count {
			t.Errorf("size %d at %d byte/s: %d messages of %d bytes, want %d of %d", c.size, c.rate, count, size, c.count, c.want)
		}
	}
}

const firstMessage = 1 << 13

func TestPausesAreThoseOfTheArchive(t *testing.T) {
	pace := Pace{Mean: 250 * time.Millisecond, Min: 25 * time.Millisecond, Max: 625 * time.Millisecond}
	var sum time.Duration
	const n = 100_000
	for range n {
		p := pace.Pause()
		if p < pace.Min || p > pace.Max {
			t.Fatalf("a pause of %s", p)
		}
		sum += p
	}
	// The mean of the clamped distribution is 231 ms: 250 (e^-0.1 - e^-2.5) + 25. Its standard
	// error is 0.6 ms; 5 ms are more than 8 of them.
	if mean := sum / n; mean < 226*time.Millisecond || mean > 236*time.Millisecond {
		t.Errorf("mean pause %s", mean)
	}
}
