// SPDX-License-Identifier: Apache-2.0

package avail

import (
	"context"
	"fmt"
	"sync"
	"time"

	"weir/core/prove/station"
	"weir/internal/units"
	"weir/internal/wait"
	"weir/record/stats"
)

// Format is the name of the JSON document of a [Result].
const Format = "weir-avail/1"

// Options configures a measurement.
type Options struct {
	Peer        station.Peer
	DSCP        uint8
	Repetitions int           // positive
	Most        units.BitRate // highest tested rate on the wire
	Report      func(string)  // receives progress messages; may be nil
}

// Result is the result of a measurement.
type Result struct {
	Format  string `json:"format"`
	Peer    string `json:"peer"`
	DSCP    uint8  `json:"dscp"`
	Started string `json:"started"` // UTC, RFC 3339
	// Available is over the repetitions, in bit/s on the wire: an IP packet and 14 bytes of
	// Ethernet each. AtLeast is the reason why a search ended early: the highest tested rate, or
	// the maximum that this host can send.
	Available stats.Estimate `json:"available"`
	AtLeast   string         `json:"at_least,omitempty"`
	Samples   []Sample       `json:"samples"`
	// Caused is the effect of the measurement on other traffic.
	Caused Disturbance `json:"caused"`
}

// Sample is one search: the highest rate that the path carried, and the lowest that it did not
// carry, 0 if it carried all.
type Sample struct {
	Low  float64 `json:"low"`
	High float64 `json:"high,omitempty"`
}

// Small packets: their number per second, their number before the first train, and the additional
// delay at which a train is too fast.
const (
	probesPerSecond = 100
	idleProbes      = 30
	patience        = 10 * time.Millisecond
	settled         = 2 * time.Millisecond
	idleTime        = 10 * time.Second
)

// Run measures the path to a responder.
func Run(ctx context.Context, o Options) (*Result, error) {
	r := &Result{Format: Format, Peer: o.Peer.Target.String(), DSCP: o.DSCP, Started: time.Now().UTC().Format(time.RFC3339), Samples: []Sample{}}
	trains, err := station.Join(ctx, o.Peer, station.Flow{Protocol: station.Trains, Connections: 1, Rate: 1}, o.DSCP)
	if err != nil {
		return nil, err
	}
	defer trains.Close()
	const probeRate = probesPerSecond * station.ProbePayload * 8
	probes, err := station.Join(ctx, o.Peer, station.Flow{Protocol: station.Probe, Connections: 1, Rate: probeRate}, 0)
	if err != nil {
		return nil, err
	}
	defer probes.Close()
	probing, end := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { _ = probes.Probe(probing, probeRate) })
	p := &real{trains: trains, echoes: probes.Echoes, began: time.Now()}
	err = r.measure(ctx, o, p)
	end()
	beside.Wait()
	if err != nil {
		return nil, err
	}
	r.Caused = disturbance(probes.Echoes(), p.windows)
	r.Caused.Octets = p.octets * (station.Payload + station.Headers(o.Peer.Target.Addr())) / station.Payload
	r.Caused.Load = float64(r.Caused.Octets) * 8 / time.Since(p.began).Seconds()
	r.Caused.Own = p.queued
	return r, nil
}

// measure runs the searches.
func (r *Result) measure(ctx context.Context, o Options, p *real) error {
	if err := p.idle(ctx); err != nil {
		return err
	}
	wire := float64(station.Datagram(o.Peer.Target.Addr())) / station.Payload
	most, from := float64(o.Most)/wire, firstRate
	var values []float64
	for n := range o.Repetitions {
		b, err := search(ctx, p, from, most)
		if err != nil {
			return err
		}
		switch {
		case b.slow:
			r.AtLeast = "this host sends no faster"
		case b.high == 0:
			r.AtLeast = "no more was tried"
		}
		from = b.estimate() / 2
		values = append(values, b.estimate()*wire)
		r.Samples = append(r.Samples, Sample{b.low * wire, b.high * wire})
		if o.Report != nil {
			o.Report(fmt.Sprintf("%d of %d: %s", n+1, o.Repetitions, units.BitRate(b.estimate()*wire)))
		}
	}
	r.Available = stats.Of(values)
	return nil
}

// real is the path to a responder.
type real struct {
	trains  *station.Sender
	echoes  func() []station.Echo
	began   time.Time
	base    time.Duration // round-trip time of small packets before the first train
	windows []span        // of trains
	octets  uint64        // of payload
	queued  time.Duration // maximum queueing delay of a datagram
}

// span is an interval of CLOCK_MONOTONIC.
type span struct{ from, to time.Duration }

// idle waits until the round-trip time of small packets without load is known.
func (p *real) idle(ctx context.Context) error {
	for deadline := time.Now().Add(idleTime); ; {
		back := trips(p.echoes(), nil)
		if len(back) >= idleProbes {
			p.base = quantile(back, 50)
			return nil
		}
		if time.Now().After(deadline) {
			return errNothing
		}
		if err := wait.For(ctx, time.Second/probesPerSecond); err != nil {
			return err
		}
	}
}

// latest returns the additional delay of the last returned small packet, or the age of an
// outstanding one.
func (p *real) latest() time.Duration {
	now, err := station.Monotonic()
	all := p.echoes()
	for i := len(all) - 1; i >= 0 && err == nil && len(all)-i < probesPerSecond; i-- {
		if all[i].RTT > 0 {
			return all[i].RTT - p.base
		}
		if out := now - all[i].At; out > p.base+patience {
			return out - p.base
		}
	}
	return 0
}

// train sends one train, then pauses until small packets are as fast as before.
func (p *real) train(ctx context.Context, rate float64, datagrams int) (t train, err error) {
	from, err := station.Monotonic()
	if err != nil {
		return t, err
	}
	stopped, asked := false, 0
	begin := time.Now()
	sent, came, err := p.trains.Train(ctx, rate, datagrams, func() bool {
		if asked++; asked%16 == 0 {
			stopped = p.latest() > patience
		}
		return stopped
	})
	took := time.Since(begin)
	if err != nil {
		return t, err
	}
	to, err := station.Monotonic()
	if err != nil {
		return t, err
	}
	p.windows = append(p.windows, span{from, to})
	p.octets += uint64(sent) * station.Payload
	t, ok := judge(sent, came)
	p.queued = max(p.queued, t.queued)
	if err := p.pause(ctx, 2*took); err != nil {
		return t, err
	}
	switch {
	case !ok:
		return t, errNothing
	case stopped && !t.above && t.queued < patience:
		return t, errDoubt
	}
	t.above = t.above || stopped
	return t, nil
}

// pause waits for least, then at most a second for the queue to drain.
func (p *real) pause(ctx context.Context, least time.Duration) error {
	if err := wait.For(ctx, min(least, time.Second)); err != nil {
		return err
	}
	for deadline := time.Now().Add(time.Second); p.latest() > settled && time.Now().Before(deadline); {
		if err := wait.For(ctx, time.Second/probesPerSecond); err != nil {
			return err
		}
	}
	return nil
}
