// SPDX-License-Identifier: Apache-2.0

package clock_test

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/kernel/clock"
)

// TestBetweenTwoReadings reads the kernel's own clock before and after each reading.
func TestBetweenTwoReadings(t *testing.T) {
	m, err := clock.New()
	if err != nil {
		t.Fatal(err)
	}
	const tolerance = int64(50 * time.Microsecond) // half a reading, on a busy machine
	for range 1000 {
		before := system(t)
		now := m.Now()
		after := system(t)
		if now < before-tolerance || now > after+tolerance {
			t.Fatalf("the clock shows %d, the kernel's %d before and %d after", now, before, after)
		}
	}
}

func TestNeverBackwards(t *testing.T) {
	m, err := clock.New()
	if err != nil {
		t.Fatal(err)
	}
	for last, n := m.Now(), 0; n < 10000; n++ {
		now := m.Now()
		if now < last {
			t.Fatalf("%d after %d", now, last)
		}
		last = now
	}
}

func system(t *testing.T) int64 {
	t.Helper()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		t.Fatal(err)
	}
	return now.Nano()
}

func BenchmarkNow(b *testing.B) {
	m, err := clock.New()
	if err != nil {
		b.Fatal(err)
	}
	b.Run("clock", func(b *testing.B) {
		for b.Loop() {
			_ = m.Now()
		}
	})
	b.Run("system-call", func(b *testing.B) {
		for b.Loop() {
			var now unix.Timespec
			_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
		}
	})
}
