// SPDX-License-Identifier: Apache-2.0

package session

import (
	"fmt"
	"time"

	"weir/record/hist"
	"weir/tester"
)

// reclock defines the meaning of the delays: between two clocks declared synchronised they become
// one-way delays, unless a frame arrived before it was sent. That refutes the declaration, and they
// stay relative.
func (a *Account) reclock() {
	if a.Clock != OneWay {
		return
	}
	for _, s := range a.Streams {
		if s.Received != nil && s.Received.DelayBase < 0 {
			a.Clock = Relative
			return
		}
	}
	for i := range a.Streams {
		if c := a.Streams[i].Received; c != nil && c.DelayBase > 0 {
			moved := absolute(*c)
			a.Streams[i].Received = &moved
		}
	}
}

// absolute returns a stream's account with delays that count from the stamps.
func absolute(c tester.Counts) tester.Counts {
	base := uint64(c.DelayBase)
	counts := make([]uint64, hist.Buckets)
	for index, n := range c.Delay.All() {
		low, high := hist.Bounds(index)
		counts[hist.Index(min(low+(high-low)/2, c.DelayMax)+base)] += n
	}
	c.DelaySum += base * c.Delay.Count()
	c.DelayMin, c.DelayMax, c.DelayLatest = c.DelayMin+base, c.DelayMax+base, c.DelayLatest+base
	if moved, err := hist.FromCounts(counts, c.DelayMin, c.DelayMax, c.DelaySum); err == nil { // the buckets are all there are
		c.Delay = moved
	}
	c.DelayBase, c.DelayBlur = 0, 0
	return c
}

// clockRemarks explains the meaning of the delays; declared is the user's declaration.
func (a Account) clockRemarks(declared Clock) []string {
	var notes []string
	negative, ahead := uint64(0), int64(0)
	for _, s := range a.Streams {
		if s.Received != nil {
			negative += s.Received.NegativeDelays
			ahead = min(ahead, s.Received.DelayBase)
		}
	}
	switch {
	case a.Clock == Relative && declared == OneWay:
		notes = append(notes, fmt.Sprintf("the clocks were declared synchronised, but %d frames arrived up to %s before they were sent: delays are relative to the smallest one, not one-way delays", negative, time.Duration(-ahead)))
	case a.Clock == Relative && hasReceiver(a.Streams):
		notes = append(notes, "the two machines' clocks are not known to be synchronised: delays are relative to the smallest one, not one-way delays")
	case negative > 0:
		notes = append(notes, fmt.Sprintf("%d frames arrived before they were sent, by the clocks of two CPUs: their delay counts as 0", negative))
	}
	return append(notes, coarse(a.Streams)...)
}

// coarse states the resolution of percentiles of relative delays if a stream's first frames were
// slow.
func coarse(streams []Stream) []string {
	blur := uint64(0)
	for _, s := range streams {
		if s.Received != nil && s.Received.DelayBlur > s.Received.DelayMax/100 {
			blur = max(blur, s.Received.DelayBlur)
		}
	}
	if blur == 0 {
		return nil
	}
	return []string{fmt.Sprintf("the first frames were slow, so percentiles of the delay are known to ±%s only; mean, maximum and variation are exact", time.Duration(blur))}
}
