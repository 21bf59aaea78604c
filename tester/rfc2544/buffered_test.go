// SPDX-License-Identifier: Apache-2.0

package rfc2544_test

import (
	"context"
	"math"
	"testing"
	"time"

	"weir/kernel/testutil"
	"weir/record/hist"
	"weir/tester/rfc2544"
)

// queue is a simulated device, frame by frame if it polices and as a fluid if it only stores:
// frames left in its buffer at the end of a trial are there at the start of the next one, unless
// the trial waited for them.
type queue struct {
	capacity float64 // frame/s that it forwards
	buffer   float64 // frames that it stores; of a policer, its bucket
	policer  bool    // drops frames above its bucket at once
	loss     float64 // share that is lost at any rate
	jolt     float64 // frames of the generator's delay, once a trial, unless it is even
	uneven   bool    // the generator cannot be even
	unfit    func(rfc2544.Trial) bool
	level    float64
	trials   int
	final    time.Duration
	finals   int
}

func (q *queue) Learn(context.Context, int) error { return nil }
func (q *queue) Describe() map[string]string      { return nil }
func (q *queue) rest(_ context.Context, d time.Duration) error {
	q.level = max(q.level-q.capacity*d.Seconds(), 0)
	return nil
}

func (q *queue) Silence(context.Context, rfc2544.Trial, func(context.Context) error) (time.Duration, error) {
	return 0, nil
}

func (q *queue) Trial(ctx context.Context, t rfc2544.Trial, residual time.Duration) (rfc2544.Outcome, error) {
	q.trials++
	if t.Duration == q.final {
		q.finals++
	}
	const line = 10e9 / 8 / 84
	rate := t.Rate
	if rate == 0 {
		rate = line
	}
	jolt := q.jolt
	if t.Even {
		jolt = 0
	}
	sent := math.Floor(rate * t.Duration.Seconds())
	overflow := 0.0
	if q.policer {
		// the bucket is full except for the rate's share; a jolt comes on top
		overflow = max(jolt+1-q.buffer, 0) + max(sent-q.capacity*t.Duration.Seconds()-q.buffer, 0)
	} else {
		peak := q.level + max(rate-q.capacity, 0)*t.Duration.Seconds()
		overflow = max(peak-q.buffer, 0)
		q.level = min(peak, q.buffer)
		_ = q.rest(ctx, residual) // the trial waits while frames arrive, and then for the residual time
		if q.buffer > 0 {
			q.level = 0
		}
	}
	overflow += math.Ceil(sent * q.loss)
	received := max(sent-math.Floor(overflow+1e-6), 0)
	o := rfc2544.Outcome{Even: t.Even, Together: uint64(jolt) + 1, Elapsed: t.Duration, Directions: []rfc2544.Flow{{
		Sent: uint64(sent), Received: uint64(received), Offered: rate, Forwarded: min(rate, q.capacity), Delay: &hist.Histogram{},
	}}}
	if t.Even && q.uneven {
		o.Directions[0].Offered = rate / 2
	}
	if q.unfit != nil && q.unfit(t) {
		o.LinkDown = true
	}
	return o, nil
}

// truth returns the highest rate at which a trial of that length loses nothing.
func (q *queue) truth(trial time.Duration) float64 { return q.capacity + q.buffer/trial.Seconds() }

func search(t *testing.T, q *queue) rfc2544.ThroughputResult {
	t.Helper()
	c := quick(rfc2544.Throughput)
	c.Pause, q.final = q.rest, c.FinalTime
	return run(t, c, q).Throughput[0]
}

// TestThroughputOfBufferedDevices is the search's contract: for any buffer size, the result is
// within the resolution of the truth of long trials.
func TestThroughputOfBufferedDevices(t *testing.T) {
	random := testutil.Rand(t)
	c := quick(rfc2544.Throughput)
	finals := 0
	const devices = 2000
	for i := range devices {
		capacity := math.Exp(math.Log(1000) + random.Float64()*math.Log(9000))
		q := &queue{capacity: capacity, buffer: math.Floor(capacity * random.Float64())} // 0 to 1 s
		if i%4 == 0 {
			q.buffer = math.Floor(q.buffer * q.buffer / capacity / 20)
		}
		got := search(t, q)
		want, frame := min(q.truth(c.FinalTime), 10e9/8/84), 2/c.FinalTime.Seconds()
		if got.Limit == rfc2544.ByTester || got.Rate > want+frame || got.Rate < want*(1-c.Resolution)-frame {
			t.Errorf("capacity %.0f with %.3f s of buffer: %.1f by %s, %+.2f %% of %.1f (%d trials)", capacity, q.buffer/capacity, got.Rate, got.Limit, 100*(got.Rate/want-1), want, q.trials)
		}
		finals += q.finals
		if i < 12 {
			t.Logf("capacity %.0f, buffer %.3f s: %.1f of %.1f, %d trials, %d long", capacity, q.buffer/capacity, got.Rate, want, q.trials, q.finals)
		}
	}
	t.Logf("%.2f long trials on average", float64(finals)/devices)
	if mean := float64(finals) / devices; mean > 7 {
		t.Errorf("%.1f long trials for a result", mean)
	}
}

// TestThroughputOfPolicers has a generator that is delayed in every trial and catches up in a
// burst.
func TestThroughputOfPolicers(t *testing.T) {
	c := quick(rfc2544.Throughput)
	for _, bucket := range []float64{1, 5, 20, 100, 1000} {
		for _, jolt := range []float64{0, 3, 60, 100} {
			q := &queue{capacity: 20_000, buffer: bucket, policer: true, jolt: jolt}
			got := search(t, q)
			want, frame := q.truth(c.FinalTime), 2/c.FinalTime.Seconds()
			if got.Limit != rfc2544.ByDevice || got.Rate > want+frame || got.Rate < want*(1-c.Resolution)-frame {
				t.Errorf("bucket of %.0f, bursts of %.0f: %.0f by %s, want %.0f", bucket, jolt, got.Rate, got.Limit, want)
			}
			if q.uneven = true; jolt <= bucket {
				continue
			}
			// A tester that cannot avoid its own bursts must report itself as the limit, not the
			// device.
			config := quick(rfc2544.Throughput)
			config.Pause = q.rest
			report, err := rfc2544.Run(context.Background(), config, q)
			if r := report.Throughput[0]; err == nil && r.Limit == rfc2544.ByDevice {
				t.Errorf("bucket of %.0f, bursts of %.0f that cannot be avoided: %.0f by the device", bucket, jolt, r.Rate)
			}
		}
	}
}

func TestOneRateWithoutAValidTrialDoesNotDiscardASearch(t *testing.T) {
	random := testutil.Rand(t)
	c := quick(rfc2544.Throughput)
	for range 300 {
		capacity := 1000 + random.Float64()*5e6
		center := capacity * (0.9 + 0.12*random.Float64())
		q := &queue{capacity: capacity, buffer: math.Floor(random.Float64() * capacity / 2)}
		q.unfit = func(t rfc2544.Trial) bool { return math.Abs(t.Rate/center-1) < c.Resolution/8 }
		got := search(t, q)
		want := q.truth(c.FinalTime)
		if got.Rate > want+1 || got.Rate < want*(1-2*c.Resolution)-1 {
			t.Errorf("capacity %.0f, nothing valid around %.0f: %.0f (%s), want %.0f", capacity, center, got.Rate, got.Reason, want)
		}
	}
}

func TestADeviceThatAlwaysLosesHasNoThroughput(t *testing.T) {
	c := quick(rfc2544.Throughput)
	report, err := rfc2544.Run(context.Background(), c, &queue{capacity: 1e5, loss: 0.001})
	if err == nil || report.Throughput[0].Measured() {
		t.Errorf("%v, %+v", err, report.Throughput[0])
	}
	c.Acceptable = 0.002
	q := &queue{capacity: 1e5, loss: 0.001}
	c.Pause = q.rest
	if got := run(t, c, q).Throughput[0]; math.Abs(got.Rate/1e5-1.0005) > c.Resolution {
		t.Errorf("with a loss that is accepted: %.0f, want about 100000", got.Rate)
	}
}
