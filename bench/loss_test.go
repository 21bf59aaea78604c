// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"weir/lab/link"
	"weir/lab/link/loss"
	"weir/lab/link/rawsock"
)

// Frames of BenchmarkEmulatorLoss: their number in each repetition, and their size in octets.
const (
	lossRepetitions = 10
	lossFrames      = 30_000
	lossFrame       = 60
	lossEtherType   = 0x88b5 // local experimental (IEEE 802)
)

// BenchmarkEmulatorLoss compares the measured loss of an emulated link with the configured one.
//
// It fails by one rule for each model of loss. Ten repetitions with different seeds send 30,000
// frames each. z is a repetition's deviation from the configured loss in standard deviations σ of
// chance: the binomial's for independent loss, that of a two-state Markov chain for
// Gilbert-Elliott's. The link passes if
//
//   - |Σz| / √10 ≤ 3: the mean of all 300,000 frames is right (a right link fails with 0.27 %), and
//   - Σz² lies between the 0.01 % and the 99.99 % quantile of χ² with 10 degrees: the repetitions
//     scatter as much as chance does, not more and not less. Every hundredth frame lost has the
//     right mean and no scatter.
//
// The seeds are fixed, so a pass stays a pass until the code or the hosts' own frames change.
func BenchmarkEmulatorLoss(b *testing.B) {
	for _, c := range []struct {
		name string
		loss loss.Loss
	}{
		{"independent=1%", loss.Of(loss.Independent{Probability: 0.01})},
		{"gilbert-elliott=p:0.5%,r:25%", loss.Of(loss.Gilbert{P: 0.005, R: 0.25, H: 0, K: 1})},
	} {
		b.Run(c.name, func(b *testing.B) {
			cable := newHosts(b)
			mean, sigma := lossMoments(c.loss, lossFrames)
			for i := range b.N {
				var lost int
				var z []float64
				for repetition := range lossRepetitions {
					n := cable.lost(b, c.loss, uint64(i*lossRepetitions+repetition+1))
					lost += n
					z = append(z, (float64(n)-mean)/sigma)
				}
				pooled, scatter := pool(z)
				b.ReportMetric(100*mean/lossFrames, "configured-%")
				b.ReportMetric(100*float64(lost)/(lossRepetitions*lossFrames), "measured-%")
				b.ReportMetric(pooled, "deviation-sigma")
				b.ReportMetric(scatter, "chi2")
				if problem := implausible(z); problem != "" {
					b.Errorf("%d of %d frames lost, %.0f expected: %s (z by repetition: %.2f)", lost, lossRepetitions*lossFrames, lossRepetitions*mean, problem, z)
				}
			}
		})
	}
}

// lost returns the number of lost frames over a link with that loss and seed, by the receiving
// host's count. A repetition in which the emulator itself lost a frame, on a busy machine, is
// repeated.
func (c *cable) lost(b *testing.B, loss loss.Loss, seed uint64) int {
	b.Helper()
	const attempts = 10
	for range attempts {
		c.carry(b, link.Direction{Loss: loss, Seed: seed}, link.Direction{})
		lost := lossFrames - c.arrived(b, loss)
		n := c.forward(b)
		if n.Overruns+n.QueueDrops != 0 {
			b.Logf("made again: the emulator lost %d frames of its own", n.Overruns+n.QueueDrops)
			continue
		}
		// The hosts may have sent a frame of their own, which the link counts and the receiver does
		// not.
		if others := int(n.Received) - lossFrames; others < 0 || lost > int(n.LossDrops) || int(n.LossDrops) > lost+others {
			b.Fatalf("%d of %d frames are missing; the link received %d and lost %d", lost, lossFrames, n.Received, n.LossDrops)
		}
		return lost
	}
	b.Fatalf("the emulator overran in %d attempts: this machine is too busy", attempts)
	return 0
}

// arrived sends the frames, at most a full emulator ring at a time, and counts the arrivals.
func (c *cable) arrived(b *testing.B, loss loss.Loss) int {
	b.Helper()
	const burst, ring, pause, limit = 64, 2048, time.Millisecond, 10 * time.Second
	sender, err := rawsock.Open(c.hosts[0], "host", rawsock.None)
	must(b, err)
	defer func() { _ = sender.Close() }()
	receiver, err := rawsock.Open(c.hosts[1], "host", lossEtherType)
	must(b, err)
	defer func() { _ = receiver.Close() }()
	frame := make([]byte, lossFrame)
	copy(frame, []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, lossEtherType >> 8, lossEtherType & 0xff})
	got, end := 0, time.Now().Add(limit)
	until := func(done func() bool) {
		for got += waiting(b, receiver); !done() && time.Now().Before(end); got += waiting(b, receiver) {
			_, err := receiver.Wait(pause)
			must(b, err)
		}
	}
	for i := range lossFrames {
		must(b, sender.Send(context.Background(), frame))
		if i%burst == 0 {
			lost, deviation := lossMoments(loss, i+1)
			until(func() bool { return i-got < ring+int(lost-4*deviation) })
		}
	}
	until(func() bool {
		n := c.forward(b)
		return n.Received+n.Overruns >= lossFrames && got+int(n.LossDrops+n.Overruns+n.QueueDrops) >= lossFrames
	})
	return got
}

// waiting reads the available frames and returns their number.
func waiting(b *testing.B, s *rawsock.Socket) (n int) {
	b.Helper()
	var buffer [2048]byte
	for {
		_, _, ok, err := s.Receive(buffer[:])
		must(b, err)
		if !ok {
			return n
		}
		n++
	}
}

// lossMoments returns the mean and the standard deviation of the number of lost frames of n.
//
// Gilbert-Elliott: a frame is lost with probability b in the bad state, which has the share π =
// P/(P+R), and g in the good one. States at a distance of k frames have the covariance π(1-π)λ^k
// with λ = 1-P-R, so the variance of the sum is
//
//	n·μ(1-μ) + 2·π(1-π)·(b-g)²·Σ (n-k)·λ^k  for k from 1 to n-1,  μ = π·b + (1-π)·g
//
// in which the sum is λ/(1-λ)·(n - (1-λ^n)/(1-λ)). That is for a chain in equilibrium; a link
// begins in the good state, which takes π·λ/(1-λ)·(b-g) frames off the mean, less than 0.1 here,
// with σ about 60.
func lossMoments(l loss.Loss, n int) (mean, sigma float64) {
	if l.Model == (loss.Independent{}).Name() {
		return float64(n) * l.Probability, math.Sqrt(float64(n) * l.Probability * (1 - l.Probability))
	}
	bad, b, g, memory := l.P/(l.P+l.R), 1-l.H, 1-l.K, 1-l.P-l.R
	mu, frames := bad*b+(1-bad)*g, float64(n)
	sum := memory / (1 - memory) * (frames - (1-math.Pow(memory, frames))/(1-memory))
	return frames * mu, math.Sqrt(frames*mu*(1-mu) + 2*bad*(1-bad)*(b-g)*(b-g)*sum)
}

// pool combines deviations of independent repetitions: their sum as a standard normal variable, and
// χ².
func pool(z []float64) (pooled, scatter float64) {
	for _, v := range z {
		pooled += v / math.Sqrt(float64(len(z)))
		scatter += v * v
	}
	return pooled, scatter
}

// implausible returns the violated part of the rule; "" if chance explains the deviations.
func implausible(z []float64) string {
	pooled, scatter := pool(z)
	if math.Abs(pooled) > 3 {
		return fmt.Sprintf("the mean is %.1f standard deviations off", pooled)
	}
	chi := distuv.ChiSquared{K: float64(len(z))}
	if least, most := chi.Quantile(0.0001), chi.Quantile(0.9999); scatter < least || scatter > most {
		return fmt.Sprintf("repetitions scatter by χ² = %.1f, outside %.1f to %.1f", scatter, least, most)
	}
	return ""
}

// TestLossMoments sums over all patterns of loss of few frames.
func TestLossMoments(t *testing.T) {
	for _, l := range []loss.Loss{
		loss.Of(loss.Independent{Probability: 0.01}),
		loss.Of(loss.Gilbert{P: 0.005, R: 0.25, H: 0, K: 1}),
		loss.Of(loss.Gilbert{P: 0.3, R: 0.9, H: 0.2, K: 0.95}), // an alternating chain
	} {
		const n = 30
		chances := exactLoss(l, n)
		var mean, square float64
		for k, p := range chances {
			mean += float64(k) * p
			square += float64(k*k) * p
		}
		gotMean, gotSigma := lossMoments(l, n)
		if math.Abs(gotMean-mean) > 1e-9 || math.Abs(gotSigma-math.Sqrt(square-mean*mean)) > 1e-9 {
			t.Errorf("%+v: mean %g, σ %g; by enumeration %g and %g", l, gotMean, gotSigma, mean, math.Sqrt(square-mean*mean))
		}
	}
}

// exactLoss returns the probability of each number of lost frames, with the chain starting in
// equilibrium.
func exactLoss(l loss.Loss, n int) []float64 {
	stay, lose := [2][2]float64{{1 - l.P, l.P}, {l.R, 1 - l.R}}, [2]float64{1 - l.K, 1 - l.H}
	now := [2][]float64{make([]float64, n+1), make([]float64, n+1)}
	now[0][0], now[1][0] = l.R/(l.P+l.R), l.P/(l.P+l.R)
	if l.Model == (loss.Independent{}).Name() {
		stay, lose = [2][2]float64{{1, 0}, {1, 0}}, [2]float64{l.Probability, l.Probability}
		now[0][0], now[1][0] = 1, 0
	}
	for range n {
		next := [2][]float64{make([]float64, n+1), make([]float64, n+1)}
		for state := range 2 {
			for k, p := range now[state] {
				for to := range 2 {
					step := p * stay[state][to]
					next[to][k] += step * (1 - lose[to])
					if k < n {
						next[to][k+1] += step * lose[to]
					}
				}
			}
		}
		now = next
	}
	for k := range now[0] {
		now[0][k] += now[1][k]
	}
	return now[0]
}

// TestLossRule applies the benchmark's rule to random numbers without any link.
func TestLossRule(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	draw := func(shift, deviation float64) []float64 {
		z := make([]float64, lossRepetitions)
		for i := range z {
			z[i] = shift + deviation*random.NormFloat64()
		}
		return z
	}
	failures := func(shift, deviation float64) (n int) {
		for range 10_000 {
			if implausible(draw(shift, deviation)) != "" {
				n++
			}
		}
		return n
	}
	// 10,000 draws of probability 0.29 % are 29 ± 5.4; the bound is 6 σ above.
	if n := failures(0, 1); n > 61 {
		t.Errorf("chance fails %d times of 10,000", n)
	}
	// 1.1 % of loss instead of 1 % is 1.74 σ in each repetition, 5.5 σ in all: 99.4 % fail.
	if n := failures(1.74, 1); n < 9_900 {
		t.Errorf("loss that is a tenth too high passes %d times of 10,000", 10_000-n)
	}
	if n := failures(0, 0.05); n < 10_000 {
		t.Errorf("a pattern without scatter passes %d times of 10,000", 10_000-n)
	}
	// Bursts of 6 frames on average, instead of single losses, have about √11 times the deviation.
	if n := failures(0, 3.3); n < 9_500 {
		t.Errorf("bursts that were not asked for pass %d times of 10,000", 10_000-n)
	}
}
