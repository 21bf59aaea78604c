// SPDX-License-Identifier: Apache-2.0

package native

import (
	"time"

	"weir/internal/units"
	"weir/lab/traffic"
)

// meter counts received bytes by intervals of traffic.RateInterval since the flow began. One
// goroutine owns it.
type meter struct {
	begin  time.Time
	length time.Duration // later bytes are not counted; 0: all are
	bins   []uint64
	total  uint64
	last   time.Duration // arrival of the latest byte
}

func newMeter(begin time.Time, length time.Duration) meter {
	m := meter{begin: begin, length: length}
	if length > 0 {
		m.bins = make([]uint64, (length+traffic.RateInterval-1)/traffic.RateInterval)
	}
	return m
}

// add counts n bytes that have arrived by now, and reports whether now is within the flow.
func (m *meter) add(now time.Time, n int) bool {
	at := now.Sub(m.begin)
	if m.length > 0 && at >= m.length {
		return false
	}
	i := int(at / traffic.RateInterval)
	for i >= len(m.bins) {
		m.bins = append(m.bins, 0)
	}
	m.bins[i] += uint64(n)
	m.total += uint64(n)
	m.last = at
	return true
}

// into adds the meter's counts to a stream's.
func (m *meter) into(s *traffic.Stream) {
	s.ReceivedBytes += m.total
	for len(s.Received) < len(m.bins) {
		s.Received = append(s.Received, 0)
	}
	for i, n := range m.bins {
		s.Received[i] += n
	}
}

func rate(octets uint64, in time.Duration) units.BitRate {
	if in <= 0 {
		return 0
	}
	return units.BitRate(float64(octets) * 8 / in.Seconds())
}
