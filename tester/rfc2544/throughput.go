// SPDX-License-Identifier: Apache-2.0

package rfc2544

import (
	"context"
	"fmt"
)

// Limit names the limit of a throughput.
type Limit string

const (
	ByDevice Limit = "device" // the next higher rate loses frames
	ByLine   Limit = "line"   // the medium's maximum, without loss
	ByTester Limit = "tester" // the tester's highest rate, without loss: the device may forward more
)

// ThroughputResult is the result for one frame size. With a Reason it was not measured and the
// rates are meaningless.
type ThroughputResult struct {
	Size        int
	Rate        float64 // frame/s in each direction, as sent: the highest that lost nothing in a valid final trial
	Fails       float64 // lowest rate above Rate that lost frames; 0 if none was found
	Theoretical float64 // frame/s; 0 without a speed
	Limit       Limit
	Because     string  // ByTester: reason
	Offers      float64 // frame/s: highest rate sent in a valid trial, forwarded or not
	Losses      Losses  // of the valid trials of the search
	Trials      int     // number of trials for this result
	Rejected    int     // number of invalid ones
	Reason      string
}

// Measured reports whether the result may be used.
func (t ThroughputResult) Measured() bool { return t.Reason == "" }

// search narrows an interval of rates: low passes (or is 0), high fails or cannot be offered.
//
//	0 ──────── low ── next trial ── high ──── ceiling (of the line, or of the tester)
//	   passes                        fails
type search struct {
	low, high float64
	limit     Limit // meaning of high
	fails     float64
	because   string // ByTester: reason why the rate at high was not offered
	rejected  int    // consecutive rates without a valid trial
	stood     uint64 // the tester's longest burst in a trial without loss
}

func (r *runner) throughput(ctx context.Context, size int) (ThroughputResult, error) {
	result := ThroughputResult{Size: size, Theoretical: MaxFrameRate(r.Speed, size)}
	before := len(r.attempts)
	s, hint, err := r.ceiling(ctx, size)
	if err == nil {
		err = r.narrow(ctx, size, s, hint)
	}
	if err == nil {
		result.Rate, err = r.confirm(ctx, size, s)
	}
	result.sum(r.attempts[before:])
	if u := unfit(err); u != nil {
		result.Rate, result.Reason = 0, u.Error()
		return result, nil
	}
	if err != nil {
		return result, err
	}
	result.Fails, result.Limit = s.fails, s.limit
	if s.limit == ByTester {
		result.Because = s.because
	}
	return result, nil
}

// ceiling finds the tester's highest rate and tries it. hint is the device's forwarding rate in
// that trial.
func (r *runner) ceiling(ctx context.Context, size int) (s *search, hint float64, err error) {
	s = &search{limit: ByLine, high: MaxFrameRate(r.Speed, size)}
	if r.HighestOffers > 0 && (s.high == 0 || r.HighestOffers < s.high) {
		s.high, s.limit = r.HighestOffers, ByTester
	}
	try := func(rate float64) (bool, Outcome, error) {
		return r.passes(ctx, Throughput, Trial{Size: size, Rate: rate, Duration: r.SearchTime})
	}
	if s.high > 0 {
		pass, outcome, err := try(s.high)
		if u := unfit(err); u == nil || !u.Short {
			return s, s.settle(s.high, pass, outcome, err), err
		}
	}
	if r.HighestOffers == 0 { // without a pace the tester is faster: if that is too fast for the device, its limit is below
		pass, outcome, err := try(0)
		offered := outcome.slowest(func(f Flow) float64 { return f.Offered })
		switch {
		case err != nil:
			return s, 0, err
		case offered <= 0:
			return s, 0, &unfitError{Reason: "the tester could not send two frames"}
		case !pass:
			return s, s.settle(offered, false, outcome, nil), nil
		case s.high == 0 || offered < s.high:
			s.high = offered
		}
	}
	s.limit = ByTester
	pass, outcome, err := r.offer(ctx, size, s)
	return s, s.settle(s.high, pass, outcome, err), err
}

// settle records the outcome at the highest rate and returns the device's forwarding rate.
func (s *search) settle(rate float64, pass bool, o Outcome, err error) (hint float64) {
	switch {
	case err != nil:
		return 0
	case pass:
		s.low, s.stood = rate, o.Together
		return 0
	}
	s.lost(rate, o)
	return min(o.slowest(func(f Flow) float64 { return f.Forwarded }), rate)
}

// offer tries the highest rate, and a lower one while the tester cannot offer it.
func (r *runner) offer(ctx context.Context, size int, s *search) (bool, Outcome, error) {
	const steps = 8
	for try := 0; ; try++ {
		pass, outcome, err := r.passes(ctx, Throughput, Trial{Size: size, Rate: s.high, Duration: r.SearchTime})
		u := unfit(err)
		if u == nil || !u.Short || try == steps {
			return pass, outcome, err
		}
		lower := min(u.Best*(1-r.MaxShort), s.high*0.9) // a machine that cannot sustain one rate may not sustain one close below it
		if lower <= 0 {
			return false, outcome, err
		}
		s.high, s.limit, s.because = lower, ByTester, u.Reason
		r.say("throughput %d octets: the tester offers %.0f frame/s at most", size, lower)
	}
}

// lost records a rate that lost frames. If the tester could not avoid its own bursts, and one was
// longer than every burst that the device forwarded, the burst may have caused the loss, so the
// limit is not the device's.
func (s *search) lost(rate float64, o Outcome) {
	if !o.Even && o.Together > 2*max(s.stood, 1) && float64(o.Lost()) <= hopeless*float64(o.Sent()) {
		s.short(rate, fmt.Sprintf("it sends bursts of up to %d frames at that rate and some were lost", o.Together))
		return
	}
	s.high, s.limit, s.fails = rate, ByDevice, rate
}

// short records a rate that the tester cannot offer, and so not judge.
func (s *search) short(rate float64, because string) {
	s.high, s.limit, s.because = rate, ByTester, because
}
