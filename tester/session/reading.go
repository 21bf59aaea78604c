// SPDX-License-Identifier: Apache-2.0

package session

import (
	"fmt"

	"weir/tester"
)

// reading appends one second of every stream to the series and reports progress.
func (r *running) reading() error {
	account, err := r.account()
	if err != nil {
		return err
	}
	if err := r.capture(); err != nil {
		return err
	}
	span := (account.Elapsed - r.at).Seconds()
	for _, s := range account.Streams {
		before := r.last[s.ID]
		reading := Reading{At: account.Elapsed, Stream: s.ID}
		if s.Sent != nil {
			reading.Sent = float64(s.Sent.Frames-frames(before.Sent)) / span
		}
		if s.Received != nil {
			was := before.Received
			if was == nil {
				was = &tester.Counts{}
			}
			n := s.Received.Received - was.Received
			reading.Received = float64(n) / span
			reading.Wire = float64(s.Received.WireBytes-was.WireBytes) * 8 / span
			reading.Lost = s.Received.Lost
			reading.Delay = meanSince(was, s.Received)
		}
		r.past = append(r.past, reading)
		r.last[s.ID] = s
	}
	r.at = account.Elapsed
	if r.config.Progress != nil {
		account.Series = r.past
		r.config.Progress(account)
	}
	return nil
}

// meanSince returns the mean delay of the frames between two readings. With two clocks it counts
// from the smallest delay so far, which may decrease between them.
func meanSince(was, is *tester.Counts) float64 {
	n, before := is.Delay.Count(), was.Delay.Count()
	if n <= before {
		return 0
	}
	sum := float64(is.DelaySum) - float64(was.DelaySum) - float64(was.DelayBase-is.DelayBase)*float64(before)
	return max(sum/float64(n-before), 0)
}

func frames(s *tester.Sent) uint64 {
	if s == nil {
		return 0
	}
	return s.Frames
}

// capture stores the captured frames, the first ones of each port up to the configured number.
func (r *running) capture() error {
	if r.config.Capture == 0 {
		return nil
	}
	if r.kept == nil {
		r.kept = map[string][]tester.CapturedFrame{}
	}
	for _, name := range r.order {
		frames, err := r.receivers[name].Captured()
		if err != nil {
			return fmt.Errorf("captured frames of %s: %w", name, err)
		}
		if room := r.config.Capture - len(r.kept[name]); len(frames) > room {
			frames = frames[:room]
		}
		if len(frames) > 0 {
			r.kept[name] = append(r.kept[name], frames...)
		}
	}
	return nil
}
