// SPDX-License-Identifier: Apache-2.0

package rfc2544_test

import (
	"context"
	"math/rand/v2"
	"time"

	"weir/record/hist"
	"weir/tester/rfc2544"
)

// device is a simulated device under test between a simulated generator and analyzer: a queue in
// front of a server.
type device struct {
	capacity   float64 // frame/s that it forwards
	buffer     float64 // frames that it stores
	generator  float64 // frame/s that the tester can send; 0 is unlimited
	spread     float64 // the same for a pace that is spread over CPUs; 0 is generator
	pps        func(size int) float64
	random     *rand.Rand
	hiccup     float64 // probability that a trial below capacity loses a frame
	stolen     float64 // probability that a trial is disturbed: it loses nothing, and its outcome is worthless
	others     float64 // share of CPU time of other programs
	late       bool    // every trial's generator is late
	recover    time.Duration
	silence    time.Duration
	learned    int
	trials     []rfc2544.Trial
	directions int
}

func (d *device) Learn(context.Context, int) error {
	d.learned++
	return nil
}

func (d *device) Describe() map[string]string { return map[string]string{"device": "simulated"} }

func (d *device) Trial(_ context.Context, t rfc2544.Trial, _ time.Duration) (rfc2544.Outcome, error) {
	d.trials = append(d.trials, t)
	capacity := d.capacity
	if d.pps != nil {
		capacity = d.pps(t.Size)
	}
	rate := t.Rate
	if rate == 0 || d.generator > 0 && rate > d.generator {
		rate = d.generator
	}
	if d.spread > 0 && t.Rate > d.spread && !t.Whole {
		rate = d.spread
	}
	sent := t.Frames
	if sent == 0 {
		sent = uint64(rate * t.Duration.Seconds())
	}
	span := float64(sent) / rate
	forwarded := min(float64(sent), capacity*span+d.buffer)
	f := rfc2544.Flow{Sent: sent, Received: uint64(forwarded), Offered: rate, Forwarded: min(rate, capacity), Delay: &hist.Histogram{}}
	f.Delay.RecordN(5000, f.Received)
	if t.Then != nil {
		f.LastLoss = d.recover
	}
	o := rfc2544.Outcome{Others: d.others, Elapsed: t.Duration}
	if d.random != nil && d.random.Float64() < d.hiccup && f.Received > 0 {
		f.Received--
	}
	if d.random != nil && d.random.Float64() < d.stolen {
		o.Steal = 0.5
		f.Received = f.Sent // the outcome of a disturbed trial must not matter
	}
	if d.late {
		o.Late = f.Sent
	}
	for range max(d.directions, 1) {
		o.Directions = append(o.Directions, f)
	}
	return o, nil
}

func (d *device) Silence(ctx context.Context, _ rfc2544.Trial, trigger func(context.Context) error) (time.Duration, error) {
	return d.silence, trigger(ctx)
}

// quick is a configuration without waits.
func quick(tests ...rfc2544.Test) rfc2544.Config {
	c := rfc2544.Quick(rfc2544.Setup{Sizes: []int{64}, Tests: tests, Speed: 10e9})
	c.Pause = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	return c
}
