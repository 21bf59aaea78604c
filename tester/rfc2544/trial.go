// SPDX-License-Identifier: Apache-2.0

package rfc2544

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Attempt is a trial that was run, valid or not: the evidence behind a result.
type Attempt struct {
	Test    Test
	Trial   Trial
	Outcome Outcome
	Valid   bool
	Reason  string // reason if it is not valid
}

// unfitError reports that no valid trial was possible; Short is true if the tester could not
// sustain the rate.
type unfitError struct {
	Reason string
	Short  bool
	Best   float64 // highest rate sent in those trials
}

func (e *unfitError) Error() string { return "the testbed cannot support this: " + e.Reason }

// judge lists the reasons why a trial is not valid. Short is true if the only reason is that the
// generator did not sustain the rate.
func (c Config) judge(t Trial, o Outcome) (reasons []string, short bool) {
	if len(o.Directions) == 0 || o.Sent() == 0 {
		return []string{"nothing was sent"}, false
	}
	for i, f := range o.Directions {
		name := ""
		if len(o.Directions) > 1 {
			name = fmt.Sprintf("direction %d: ", i+1)
		}
		if t.Rate > 0 && (t.Frames == 0 || t.Frames >= firm) && f.Offered < t.Rate*(1-c.MaxShort) {
			reasons, short = append(reasons, fmt.Sprintf("%soffered %.0f frame/s of %.0f", name, f.Offered, t.Rate)), true
		}
	}
	if share := float64(o.Late) / float64(o.Sent()); share > c.MaxLate {
		reasons, short = append(reasons, fmt.Sprintf("%.1f %% of the frames left late", 100*share)), true
	}
	other := len(reasons)
	if o.Dropped > 0 {
		reasons = append(reasons, fmt.Sprintf("the tester itself dropped %d received frames", o.Dropped))
	}
	if o.LinkDown {
		reasons = append(reasons, "a link went down")
	}
	if o.Steal > c.MaxSteal {
		reasons = append(reasons, fmt.Sprintf("the host took %.1f %% of the CPUs away", 100*o.Steal))
	}
	if o.Device == nil && o.Others > c.MaxOthers {
		reasons = append(reasons, fmt.Sprintf("other programs took %.0f %% of the CPUs", 100*o.Others))
	}
	if o.Device != nil && !c.accepts(o) {
		reasons = append(reasons, c.disturbed(t, o)...)
	}
	return reasons, short && other == len(reasons)
}

// accepts reports whether a trial's loss is at most the accepted share.
func (c Config) accepts(o Outcome) bool { return float64(o.Lost()) <= c.Acceptable*float64(o.Sent()) }

// firm is the minimum number of frames for a meaningful rate of a burst.
const firm = 64

// runner runs one benchmark: it keeps the attempts and the rests between them.
type runner struct {
	Config
	bench    Bench
	attempts []Attempt
	learned  int     // frame size of the last learning frames
	uneven   float64 // frame/s above which the tester cannot send evenly; 0 is unknown
}

// valid runs a trial until it is valid, at most Attempts times; then it returns an unfitError.
func (r *runner) valid(ctx context.Context, test Test, t Trial) (Outcome, error) {
	unfit := &unfitError{Short: true}
	attempts := max(r.Attempts, 1)
	if t.Even {
		attempts = min(attempts, 3)
	}
	for range attempts {
		outcome, err := r.once(ctx, t)
		if err != nil {
			return Outcome{}, err
		}
		reasons, short := r.judge(t, outcome)
		r.attempts = append(r.attempts, Attempt{Test: test, Trial: t, Outcome: outcome, Valid: len(reasons) == 0, Reason: strings.Join(reasons, "; ")})
		r.tell(test, t, outcome, reasons)
		if len(reasons) == 0 {
			return outcome, nil
		}
		if short { // a spread rate takes all CPUs: on a busy machine one CPU may sustain a rate that two cannot
			t.Whole = !t.Whole
		}
		unfit.Reason, unfit.Short = strings.Join(reasons, "; "), unfit.Short && short
		unfit.Best = max(unfit.Best, outcome.slowest(func(f Flow) float64 { return f.Offered }))
	}
	return Outcome{}, unfit
}

// once runs the phases of section 23: learning frames, the trial with its residual wait, and a
// rest.
func (r *runner) once(ctx context.Context, t Trial) (Outcome, error) {
	if err := r.learn(ctx, t.Size); err != nil {
		return Outcome{}, err
	}
	outcome, err := r.bench.Trial(ctx, t, r.ResidualWait)
	if err != nil {
		return Outcome{}, fmt.Errorf("trial of %d octets: %w", t.Size, err)
	}
	if err := ctx.Err(); err != nil {
		return Outcome{}, err
	}
	return outcome, r.pause(ctx, r.RestWait)
}

// learn sends learning frames and waits: before every trial, or in a quick look before the first
// one of a size.
func (r *runner) learn(ctx context.Context, size int) error {
	if r.IsQuick && r.learned == size {
		return nil
	}
	r.learned = size
	if err := r.bench.Learn(ctx, size); err != nil {
		return fmt.Errorf("learning frames: %w", err)
	}
	return r.pause(ctx, r.LearnWait)
}

func (r *runner) tell(test Test, t Trial, o Outcome, reasons []string) {
	what := fmt.Sprintf("%.0f frame/s", t.Rate)
	switch {
	case t.Frames > 0:
		what = fmt.Sprintf("burst of %d frames", t.Frames)
	case t.Rate == 0:
		what = "as fast as possible"
	}
	verdict := fmt.Sprintf("%d of %d lost", o.Lost(), o.Sent())
	if len(reasons) > 0 {
		verdict = "not valid: " + strings.Join(reasons, "; ")
	}
	r.say("%s %d octets, %s for %s: %s", test, t.Size, what, t.Duration.Round(time.Millisecond), verdict)
}

// passes reports whether a trial loses nothing. A trial that lost frames is repeated Verify times:
// one without loss is enough, since an interruption of a shared machine is not a limit of the
// device.
func (r *runner) passes(ctx context.Context, test Test, t Trial) (bool, Outcome, error) {
	return r.verified(ctx, test, t, r.Verify)
}

// verified is passes with the given number of repetitions. They are even if the tester can send
// evenly, so that no burst of its own causes the loss. The outcome is that of the trial that
// passed, or of the one that lost least.
func (r *runner) verified(ctx context.Context, test Test, t Trial, repetitions int) (bool, Outcome, error) {
	var best Outcome
	for i := range 1 + repetitions {
		outcome, err := r.again(ctx, test, t, i)
		if err != nil {
			return false, Outcome{}, err
		}
		if r.accepts(outcome) {
			return true, outcome, nil
		}
		switch {
		case i == 0, outcome.Even && !best.Even:
			best = outcome
		case outcome.Even == best.Even && outcome.Lost() < best.Lost():
			best = outcome
		}
		if float64(outcome.Lost()) > hopeless*float64(outcome.Sent()) {
			break
		}
	}
	return false, best, nil
}

// again runs the trial; repetitions of a paced one are even, up to the rate at which the tester
// failed to send evenly.
func (r *runner) again(ctx context.Context, test Test, t Trial, repetition int) (Outcome, error) {
	if repetition > 0 && t.Rate > 0 && t.Frames == 0 && t.Then == nil && (r.uneven == 0 || t.Rate < 0.9*r.uneven) {
		even := t
		even.Even = true
		outcome, err := r.valid(ctx, test, even)
		u := unfit(err)
		if u == nil || !u.Short {
			return outcome, err
		}
		if u.Best < 0.9*t.Rate { // not merely disturbed
			r.uneven = t.Rate
		}
	}
	return r.valid(ctx, test, t)
}

// unfit returns the unfitError in err, or nil.
func unfit(err error) *unfitError {
	var u *unfitError
	if errors.As(err, &u) {
		return u
	}
	return nil
}
