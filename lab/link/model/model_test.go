// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"math"
	"testing"
	"time"

	"weir/lab/link"
	"weir/lab/link/loss"
	"weir/lab/link/model"
)

const trials = 200000

// count runs frames, 1 ms apart, through a direction and counts those for which f holds.
func count(d link.Direction, f func(model.Decision) bool) (n float64) {
	d.Seed = 7
	l := model.New(d, 16)
	for i := range trials {
		if f(l.Decide(int64(i)*1e6, 1000)) {
			n++
		}
	}
	return n
}

func within(t *testing.T, what string, got, want, deviation float64) {
	t.Helper()
	if math.Abs(got-want) > 4*deviation {
		t.Errorf("%s is %v, want %v ± %v (4 sigma)", what, got, want, 4*deviation)
	}
}

func binomial(t *testing.T, what string, got, p float64) {
	t.Helper()
	within(t, what, got, p*trials, math.Sqrt(trials*p*(1-p)))
}

func lost(d model.Decision) bool { return d.Fate == model.LossDrop }

func TestSharesOfChance(t *testing.T) {
	binomial(t, "independent loss", count(link.Direction{Loss: loss.Of(loss.Independent{Probability: 0.01})}, lost), 0.01)
	binomial(t, "duplication", count(link.Direction{Duplicate: 0.05}, func(d model.Decision) bool { return d.Duplicate }), 0.05)
	binomial(t, "reordering", count(link.Direction{Reorder: 0.25, Delay: time.Second}, func(d model.Decision) bool { return d.Reordered }), 0.25)
	binomial(t, "damage", count(link.Direction{Corrupt: 0.5}, func(d model.Decision) bool { return d.Damage }), 0.5)
	binomial(t, "bits of the upper half", count(link.Direction{Corrupt: 1}, func(d model.Decision) bool { return d.Bit >= (1000-14)*4 }), 0.5)
	for _, never := range []float64{
		count(link.Direction{}, func(d model.Decision) bool {
			return d.Fate != model.Pass || d.Duplicate || d.Damage || d.Mark || d.Reordered
		}),
		count(link.Direction{Loss: loss.Of(loss.Independent{Probability: 1})}, func(d model.Decision) bool { return !lost(d) }),
	} {
		if never != 0 {
			t.Errorf("%v frames met a fate that is impossible", never)
		}
	}
}

func TestGilbertElliott(t *testing.T) {
	const p, r, k, h = 0.005, 0.25, 0.999, 0.2
	direction := link.Direction{Loss: loss.Of(loss.Gilbert{P: p, R: r, K: k, H: h}), Seed: 3}
	l := model.New(direction, 16)
	losses := make([]float64, trials)
	var sum float64
	for i := range losses {
		if lost(l.Decide(int64(i), 100)) {
			losses[i] = 1
			sum++
		}
	}
	bad := p / (p + r)
	share := (1-bad)*(1-k) + bad*(1-h)
	inflation := (2 - p - r) / (p + r)
	within(t, "loss", sum, share*trials, math.Sqrt(trials*share*(1-share)*inflation))
	// Two losses in a row: the state's own correlation, not that of independent losses.
	var pairs float64
	for i := 1; i < trials; i++ {
		pairs += losses[i-1] * losses[i]
	}
	both := bad*(1-h)*((1-r)*(1-h)+r*(1-k)) + (1-bad)*(1-k)*(p*(1-h)+(1-p)*(1-k))
	within(t, "pairs of losses", pairs, both*trials, math.Sqrt(trials*both*inflation))
}

func TestEveryNthLosesExactlyThose(t *testing.T) {
	l := model.New(link.Direction{Loss: loss.Of(loss.EveryNth{Nth: 7})}, 16)
	for i := 1; i <= 1000; i++ {
		if got, want := lost(l.Decide(int64(i), 100)), i%7 == 0; got != want {
			t.Fatalf("frame %d: lost %v", i, got)
		}
	}
}

func TestJitterHasItsMomentsAndBounds(t *testing.T) {
	const delay, jitter = 50e6, 5e6
	for _, c := range []struct {
		shape           link.JitterShape
		deviation       float64
		fourth          float64 // standardised fourth moment bounds the variance's own error
		lowest, highest float64
	}{
		{link.Uniform, jitter / math.Sqrt(3), 1.8, delay - jitter, delay + jitter},
		{"", jitter / math.Sqrt(3), 1.8, delay - jitter, delay + jitter},
		{link.Normal, jitter, 3, 0, math.MaxInt64},
		// Cut at 4 deviations: mean and deviation of the cut variable, by integration over its
		// tail.
		{link.Pareto, jitter, 10, delay - jitter/math.Sqrt(3)*(1+1e-9), delay + 4*jitter},
	} {
		l := model.New(link.Direction{Delay: delay, Jitter: jitter, Shape: c.shape, Seed: 11}, 16)
		var sum, squares, low, high = 0.0, 0.0, math.Inf(1), 0.0
		for i := range trials {
			d := float64(l.Decide(int64(i), 100).At - int64(i))
			sum += d
			squares += (d - delay) * (d - delay)
			low, high = min(low, d), max(high, d)
		}
		meanWant, varianceWant := float64(delay), c.deviation*c.deviation
		if c.shape == link.Pareto {
			mean, variance := cutPareto()
			meanWant, varianceWant = delay+jitter*mean, jitter*jitter*variance
		}
		within(t, string(c.shape)+" mean", sum/trials, meanWant, c.deviation/math.Sqrt(trials))
		within(t, string(c.shape)+" variance", squares/trials, varianceWant, c.deviation*c.deviation*math.Sqrt(c.fourth/trials))
		if low < c.lowest-1 || high > c.highest+1 {
			t.Errorf("%s: delays between %v and %v, want within %v and %v", c.shape, low, high, c.lowest, c.highest)
		}
	}
}

// cutPareto integrates numerically the mean, and the mean square, of the standard Pareto of shape 3
// cut at 4.
func cutPareto() (mean, square float64) {
	const steps = 2000000
	for i := range steps {
		u := (float64(i) + 0.5) / steps
		z := min(4, (1/math.Cbrt(u)-1.5)/math.Sqrt(0.75))
		mean += z / steps
		square += z * z / steps
	}
	return mean, square
}

func TestKeepOrderNeverOvertakes(t *testing.T) {
	for _, keep := range []bool{false, true} {
		l := model.New(link.Direction{Delay: 5e6, Jitter: 4e6, KeepOrder: keep, Seed: 1}, 16)
		overtaken, last := 0, int64(0)
		for i := range 10000 {
			at := l.Decide(int64(i)*1e5, 100).At
			if at < last {
				overtaken++
			}
			last = max(last, at)
		}
		if (overtaken == 0) != keep {
			t.Errorf("keep order %v: %d frames overtook others", keep, overtaken)
		}
	}
}

func TestLostFrameUsesTheWire(t *testing.T) {
	all := loss.Of(loss.EveryNth{Nth: 2})
	l := model.New(link.Direction{Rate: 8e6, Loss: all}, 16) // 1 µs per octet
	first, second, third := l.Decide(0, 976), l.Decide(0, 976), l.Decide(0, 976)
	if first.At != 1e6 || second.Fate != model.LossDrop || third.At != 3e6 {
		t.Errorf("frames leave at %d and %d, want 1 ms and 3 ms, the second being lost", first.At, third.At)
	}
}

func TestSeedRepeatsAndSeparates(t *testing.T) {
	run := func(seed uint64) (pattern [64]bool) {
		l := model.New(link.Direction{Loss: loss.Of(loss.Independent{Probability: 0.5}), Seed: seed}, 16)
		for i := range pattern {
			pattern[i] = lost(l.Decide(int64(i), 100))
		}
		return pattern
	}
	first, again, other := run(1), run(1), run(2)
	if first != again {
		t.Error("the same seed made other choices")
	}
	if first == other {
		t.Error("two seeds made the same choices")
	}
}

func TestDecideAllocatesNothing(t *testing.T) {
	l := model.New(link.Direction{
		Rate: 1e9, Delay: 1e6, Jitter: 1e5, Shape: link.Pareto, KeepOrder: true, Reorder: 0.1, Duplicate: 0.1, Corrupt: 0.1,
		Loss:  loss.Of(loss.Gilbert{P: 0.1, R: 0.1}),
		Queue: link.Queue{Bytes: 1e6, ECN: 1e5},
	}, 1024)
	now := int64(0)
	if n := testing.AllocsPerRun(1000, func() { now += 1000; l.Decide(now, 1514) }); n != 0 {
		t.Errorf("%v allocations per frame", n)
	}
}

func BenchmarkDecide(b *testing.B) {
	l := model.New(link.Direction{Rate: 1e9, Delay: 1e6, Loss: loss.Of(loss.Independent{Probability: 0.01}), Queue: link.Queue{Bytes: 1e6}}, 1024)
	for i := range b.N {
		l.Decide(int64(i)*12000, 1514)
	}
}
