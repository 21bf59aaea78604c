// SPDX-License-Identifier: Apache-2.0

package rfc2544

import (
	"context"
	"time"

	"weir/tester/session"
)

const (
	// observe is the polling interval of a reset test. The analyzer itself stamps the first frame
	// after the silence if it was a sequence error, which it is if any frame was lost.
	observe = 2 * time.Millisecond
	// steady is the required time of flowing frames before the reset, and again after it.
	steady = 500 * time.Millisecond
	// silent is the minimum silence of the device; a shorter one may be a pause of the machine.
	silent = 50 * time.Millisecond
	// unmoved is the maximum time from the trigger to the first effect of a reset.
	unmoved = 10 * time.Second
)

// silences follows one stream and finds the longest time without an arrival.
type silences struct {
	last    time.Duration // latest arrival seen
	longest time.Duration
	since   time.Duration // arrival that ended the longest silence
	began   time.Duration // first arrival
	moved   time.Time     // time of the last reading with a new arrival
}

// see processes one reading of the stream.
func (s *silences) see(stream session.Stream) {
	c := stream.Received
	if c.Received == 0 || c.Last == s.last {
		return
	}
	s.moved = time.Now()
	if s.last == 0 {
		s.began, s.last = c.First, c.Last
		return
	}
	// Frames have arrived since the last reading. The first one is known if it was out of sequence;
	// otherwise nothing was lost, and the silence was at most the time to the latest one.
	first := c.Last
	if e := c.LastError; e != nil && e.At > s.last && e.At <= c.Last {
		first = e.At
	}
	if gap := first - s.last; gap > s.longest {
		s.longest, s.since = gap, first
	}
	s.last = c.Last
}

// Silence sends the trial's stream, triggers the reset once frames flow, and ends when they have
// flowed again for a while.
func (p *Ports) Silence(ctx context.Context, t Trial, trigger func(context.Context) error) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.whole = true // each direction's arrivals are followed as one stream
	defer func() { p.whole = false }()
	config := p.config(p.directions(t), time.Millisecond)
	found := make([]silences, len(config.Directions))
	triggered := make(chan error, 1)
	started, over := false, false
	var done time.Time // time of the trigger's return
	var failed error
	config.ObserveEvery = observe
	config.Observe = func(a session.Account) {
		for i := range found {
			found[i].see(a.Streams[i])
		}
		if !started && flowing(found) {
			started = true
			for i := range found {
				found[i].longest = 0
			}
			go func() { triggered <- trigger(ctx) }()
		}
		select {
		case failed = <-triggered:
			done = time.Now()
		default:
		}
		if over = over || back(found, done); over || failed != nil {
			cancel()
		}
	}
	_, err := session.Run(ctx, config)
	switch {
	case err != nil:
		return 0, err
	case failed != nil:
		return 0, failed
	case !started:
		return 0, &unfitError{Reason: "no frames came through before the reset"}
	case !over: // as of the last reading: the later end of the session is no silence
		return 0, errNoSilence(t.Duration)
	}
	longest := time.Duration(0)
	for _, s := range found {
		longest = max(longest, s.longest)
	}
	return longest, nil
}

// flowing reports that frames have arrived in every direction for a while.
func flowing(all []silences) bool {
	for _, s := range all {
		if s.last == 0 || s.last-s.began < steady {
			return false
		}
	}
	return true
}

// back reports that the reset is over: every direction fell silent, or did not within unmoved, and
// frames flow again.
func back(all []silences, triggered time.Time) bool {
	if triggered.IsZero() {
		return false
	}
	for _, s := range all {
		waiting := s.longest < silent && time.Since(triggered) < unmoved
		if waiting || s.last-s.since < steady || time.Since(s.moved) > silent {
			return false
		}
	}
	return true
}
