// SPDX-License-Identifier: Apache-2.0

package rfc2544

import (
	"context"
	"fmt"
)

// maxRejected is the number of consecutive rates without a valid trial after which the search ends
// with its current interval.
const maxRejected = 4

// around returns another rate close to one without a valid trial: a disturbance of one may spare
// the next.
func (s *search) around(rate, resolution float64) float64 {
	s.rejected++
	aside := rate * resolution * float64(s.rejected) / 2
	if s.rejected%2 == 0 && rate+aside < s.high*(1-resolution) {
		return rate + aside
	}
	return max(rate-aside, s.low+(rate-s.low)/2)
}

// narrow halves the interval down to the resolution. The first guess is the forwarding rate under
// overload, which is close to the throughput of most devices (the idea of MLRsearch,
// draft-ietf-bmwg-mlrsearch).
func (r *runner) narrow(ctx context.Context, size int, s *search, hint float64) error {
	guess, away := hint*(1-r.Resolution), 2*r.Resolution
	for s.low < s.high*(1-r.Resolution) {
		rate := (s.low + s.high) / 2
		if guess > s.low && guess < s.high*(1-r.Resolution) {
			rate = guess
		}
		guess = 0
		if rate < 1 {
			return &unfitError{Reason: "every trial lost frames, down to one frame a second"}
		}
		pass, outcome, err := r.passes(ctx, Throughput, Trial{Size: size, Rate: rate, Duration: r.SearchTime})
		u := unfit(err)
		switch {
		case u != nil && u.Short:
			s.short(rate, u.Reason)
		case u != nil && s.rejected < maxRejected:
			guess = s.around(rate, r.Resolution)
			continue
		case u != nil && s.low > 0: // the bracket so far is enough; long trials decide within it
			s.short(s.high, u.Reason)
			return nil
		case err != nil:
			return err
		case pass:
			s.low, s.stood = rate, max(s.stood, outcome.Together)
			if hint > 0 { // try close above first, then ever farther
				guess, away = rate*(1+away), min(2*away, 0.5)
			}
		default:
			s.lost(rate, outcome)
			if s.low == 0 && hint > 0 { // try close below first, then ever farther
				guess, away = rate*(1-away), min(2*away, 0.5)
			}
		}
		s.rejected = 0
	}
	return nil
}

// confirm decides with long trials (section 24). A device that stores frames passes a short trial
// above its sustained rate. So the rate is lowered until a long trial loses nothing; then long
// trials alone narrow the interval between that rate and the lowest rate that lost frames.
//
//	0 ──── passed (a long trial lost nothing) ── next ── s.high (loses frames, or cannot be offered)
func (r *runner) confirm(ctx context.Context, size int, s *search) (passed float64, err error) {
	rate, step := s.low, r.Resolution
	s.rejected = 0
	for range max(r.ConfirmBelow, 1) {
		if rate < 1 {
			break
		}
		pass, outcome, err := r.verified(ctx, Throughput, Trial{Size: size, Rate: rate, Duration: r.FinalTime}, r.VerifyFinal)
		u := unfit(err)
		switch {
		case u != nil && u.Short:
			s.short(rate, u.Reason)
		case u != nil && s.rejected < maxRejected:
			s.low = passed
			rate = s.around(rate, r.Resolution)
			continue
		case u != nil && passed > 0:
			s.short(s.high, u.Reason)
			return passed, nil
		case err != nil:
			return 0, err
		case pass:
			passed = min(rate, max(outcome.slowest(func(f Flow) float64 { return f.Offered }), passed))
			if rate >= s.high*(1-r.Resolution) {
				return passed, nil
			}
			s.stood = max(s.stood, outcome.Together)
		default:
			s.lost(rate, outcome)
			if passed > 0 {
				step = r.Resolution
			}
		}
		s.rejected = 0
		if passed >= s.high*(1-r.Resolution) {
			return passed, nil
		}
		rate, step = r.nextLong(s, passed, pass, outcome, step)
	}
	if passed > 0 {
		return passed, nil
	}
	return 0, &unfitError{Reason: fmt.Sprintf("no long trial succeeded, down to %.0f frame/s", rate)}
}

// nextLong returns the rate of the next long trial. The device's forwarding rate under overload,
// its buffer included, is the rate that it accepts in a trial of that length. So the first guess is
// a little below that rate; the next one is just above the rate that passed.
func (r *runner) nextLong(s *search, passed float64, pass bool, o Outcome, step float64) (rate, nextStep float64) {
	inside := func(rate float64) bool { return rate > passed && rate < s.high*(1-r.Resolution/4) }
	close := 1 - r.Resolution/4
	if !pass && o.Sent() > 0 {
		if taken := s.high * (1 - float64(o.Lost())/float64(o.Sent())) * close; o.Lost() > 0 && inside(taken) && taken < s.high*(1-r.Resolution/2) {
			return taken, step
		}
	}
	if above := passed * (1 + 0.9*step); pass && inside(above) {
		return above, 2 * step
	}
	if passed > 0 {
		return (passed + s.high) / 2, step
	}
	return s.high * (1 - step), min(2*step, 0.2)
}
