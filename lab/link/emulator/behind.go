// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"weir/lab/link"
	"weir/record/hist"
)

// behind adds up the stalls of one direction: a frame was due, or had arrived, and
// nothing was done.
type behind struct {
	from, until int64 // the span that is still open, CLOCK_MONOTONIC in ns
	stalls      hist.Histogram
}

func (b *behind) begin() {
	b.stalls.Record(0) // takes its memory now
	b.stalls.Reset()
}

// add takes in that a frame waited from its time until now. Spans that overlap become one.
func (b *behind) add(since, now int64) {
	if now-since < int64(link.BehindAfter) {
		return
	}
	if since > b.until {
		b.close()
		b.from = since
	}
	b.until = now
}

// close ends the open span.
func (b *behind) close() {
	if b.until > b.from {
		b.stalls.Record(uint64(b.until - b.from))
	}
	b.from = b.until
}
