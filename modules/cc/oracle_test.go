// SPDX-License-Identifier: Apache-2.0

package cc

import "math"

// estimator is RFC 8257, section 3.3, written from its text: in real numbers, and in the integers
// of section 4.2.
type estimator struct {
	alpha         float64
	scaled        uint64
	windowEnd     uint32
	acked, marked uint64
}

// The RFC's parameters chosen in dctcp.bpf.c.
const (
	gain         = 1.0 / 16
	scale, shift = 65536, 4
)

// rounding is the maximum error of the integers: each update cuts off less than 1.07, the next
// update keeps 15/16 of the error, and values below 16 become 0.
const rounding = 1.07*16 + 16

func newEstimator(una uint32) *estimator {
	return &estimator{alpha: 1, scaled: scale, windowEnd: una}
}

// ack processes an acceptable acknowledgment that moves SND.UNA by octets to una.
func (e *estimator) ack(una, next, octets uint32, echo bool) {
	e.acked += uint64(octets)
	if echo {
		e.marked += uint64(octets)
	}
	if !after(una, e.windowEnd) {
		return
	}
	level := float64(e.marked) / float64(e.acked)
	e.alpha = e.alpha*(1-gain) + gain*level
	scaledLevel := scale * e.marked / e.acked
	if e.scaled>>shift == 0 {
		e.scaled = 0
	}
	e.scaled = min(e.scaled+scaledLevel>>shift-e.scaled>>shift, scale)
	e.windowEnd = next
	e.acked, e.marked = 0, 0
}

// after compares sequence numbers, which wrap.
func after(a, b uint32) bool { return int32(a-b) > 0 }

// reduced returns the window in segments after a reduction: cwnd * (1 - alpha/2), at least two.
func reduced(window uint32, alpha float64) float64 {
	return math.Max(2, float64(window)*(1-alpha/2))
}
