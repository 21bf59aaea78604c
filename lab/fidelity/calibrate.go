// SPDX-License-Identifier: Apache-2.0

package fidelity

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"weir/internal/units"
	"weir/lab/link"
)

// Tolerances of a calibration.
const (
	RateTolerance  = 0.02                   // relative to the requested rate, both ways
	DelayTolerance = 500 * time.Microsecond // or DelayShare of the delay, if that is larger
	DelayShare     = 0.05
	LossSigma      = 4 // standard deviations

	tries         = 3 // per direction: other load on the machine easily disturbs a single one
	trainTime     = 150 * time.Millisecond
	trainFrames   = 4000
	shortTime     = 60 * time.Millisecond // of the trains of many links
	shortFrames   = 200
	segments      = 8  // of a train
	singles       = 30 // frames that measure the delay, one at a time
	singleGap     = 2 * time.Millisecond
	unlimitedRate = 200e6 // bit/s at which an unlimited link is probed
)

// Calibrate probes both directions of an idle link and compares it with the request; see README.md
// for the tolerances. Mismatches are in the Calibration; the error reports a failure of probing
// itself. It takes about 0.6 s plus the link's delays.
func Calibrate(ctx context.Context, l Link) (Calibration, error) {
	return calibrateLink(ctx, l, trainPlan{trainTime, trainFrames, tries, 1, nil})
}

// trainPlan holds the duration and maximum length of trains, the tries per direction, the
// directions probed at once, and the function that closes the probers.
type trainPlan struct {
	time    time.Duration
	frames  int
	tries   int
	atOnce  int
	closing *sync.WaitGroup
}

// close closes a prober. The kernel waits for a grace period with each packet socket; several
// probers can wait at once.
func (plan trainPlan) close(p *prober) {
	if plan.closing == nil {
		p.close()
		return
	}
	plan.closing.Go(p.close)
}

func calibrateLink(ctx context.Context, l Link, plan trainPlan) (Calibration, error) {
	c := Calibration{Link: l.Name, At: time.Now()}
	var problems [2][]string
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(plan.atOnce)
	for i, way := range []struct {
		from, to Endpoint
		asked    link.Direction
		into     *Measured
	}{{l.A, l.B, l.Forward, &c.Forward}, {l.B, l.A, l.Reverse, &c.Reverse}} {
		group.Go(func() (err error) {
			*way.into, problems[i], err = calibrate(ctx, way.from, way.to, way.asked, plan)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return c, fmt.Errorf("calibrate link %s: %w", l.Name, err)
	}
	for i, name := range []string{"forward", "reverse"} {
		for _, problem := range problems[i] {
			c.Problems = append(c.Problems, fmt.Sprintf("link %s %s: %s", l.Name, name, problem))
		}
	}
	return c, nil
}

func calibrate(ctx context.Context, from, to Endpoint, asked link.Direction, plan trainPlan) (measured Measured, problems []string, err error) {
	p, err := newProber(from, to)
	if err != nil {
		return Measured{}, nil, err
	}
	defer plan.close(p)
	p.trains = plan
	for range plan.tries {
		if measured, err = p.measure(ctx, asked); err != nil {
			return measured, nil, err
		}
		if problems = compare(measured, asked, plan.time); len(problems) == 0 {
			break
		}
	}
	return measured, problems, nil
}

// measure sends single frames for the delay and a train for the rate. Both count for the loss.
func (p *prober) measure(ctx context.Context, asked link.Direction) (Measured, error) {
	quiet := 50*time.Millisecond + 2*asked.Delay + 8*asked.Jitter
	if err := p.warmUp(ctx, asked, quiet); err != nil {
		return Measured{}, err
	}
	var m Measured
	length := smallest + 14
	gap := max(singleGap, 2*onWire(length, asked.Rate))
	single, err := p.round(ctx, &m, singles, length, quiet, pace{each: gap})
	if err != nil {
		return m, err
	}
	m.delays(single)
	count, length := p.plan(asked.Rate)
	train, err := p.round(ctx, &m, count, length, quiet, busy(asked, length))
	if err != nil {
		return m, err
	}
	m.Loss = 1 - float64(m.Arrived)/float64(m.Sent)
	m.LossLow, m.LossHigh = lossBounds(asked.Loss, m.Sent)
	if asked.Rate > 0 {
		if m.Loss > m.LossHigh { // lost before the bottleneck, so this surplus did not use the wire
			train = slices.DeleteFunc(train, func(one probe) bool { return one.arrived == 0 })
		}
		m.Rate = trainRate(train, length, asked.Jitter > 0)
	}
	return m, nil
}

// warmUp sends single frames until one arrives: caches fill, and the kernel starts to stamp
// arrivals.
func (p *prober) warmUp(ctx context.Context, asked link.Direction, quiet time.Duration) error {
	const patience = 100
	var unused Measured
	for range patience {
		got, err := p.round(ctx, &unused, 3, smallest, quiet, pace{each: time.Millisecond})
		if err != nil {
			return err
		}
		if len(got) > 0 && unused.Arrived > 0 {
			return nil
		}
		if asked.Loss.Share() == 1 {
			return nil
		}
	}
	return errors.New("no probe frame arrives")
}

// round sends frames, adds them to the measurement and returns the result of each.
func (p *prober) round(ctx context.Context, m *Measured, count, length int, quiet time.Duration, spacing pace) ([]probe, error) {
	first := p.next
	if err := p.train(ctx, count, length, spacing); err != nil {
		return nil, err
	}
	probes := make([]probe, count)
	damaged, err := p.collect(ctx, first, probes, quiet)
	if err != nil {
		return nil, err
	}
	m.Sent += uint64(count)
	m.Arrived += damaged
	for _, one := range probes {
		if one.arrived != 0 {
			m.Arrived++
		}
	}
	m.Arrived = min(m.Arrived, m.Sent) // a damaged frame may have been a duplicate too
	return probes, nil
}

// plan chooses a train that takes about trainTime and has enough frames to measure the loss.
func (p *prober) plan(rate units.BitRate) (count, length int) {
	bitrate := float64(rate)
	if rate == 0 {
		bitrate = unlimitedRate
	}
	octets := bitrate / 8 * p.trains.time.Seconds()
	length = int(octets/float64(p.trains.frames/2)) - link.FrameOverhead
	length = max(smallest, min(length, header+p.out.Device.MTU))
	count = int(octets / float64(length+link.FrameOverhead))
	return max(50, min(count, p.trains.frames)), length
}

// busy keeps the bottleneck busy without an overflow of its queue: half a queue, or 5 ms, is in the
// queue.
func busy(asked link.Direction, length int) pace {
	rate := asked.Rate
	if rate == 0 {
		rate = unlimitedRate
	}
	each := onWire(length, rate)
	ahead := int(5 * time.Millisecond / max(each, 1))
	if asked.Queue.Bytes > 0 {
		ahead = min(ahead, int(asked.Queue.Bytes)/length/2)
	}
	if q := asked.Queue; q.Managed() { // half of the queue target
		ahead = min(ahead, int(float64(asked.Rate)*q.WithDefaults().Target.Seconds()/16)/length)
	}
	if asked.Queue.Packets > 0 {
		ahead = min(ahead, asked.Queue.Packets/2)
	}
	return pace{each: each, ahead: ahead}
}

// onWire is the serialization time of a frame at a rate; 0 for an unlimited rate.
func onWire(length int, rate units.BitRate) time.Duration {
	if rate == 0 {
		return 0
	}
	return time.Duration(float64(length+link.FrameOverhead) * 8e9 / float64(rate))
}

// delays fills in the delay of single frames.
func (m *Measured) delays(single []probe) {
	var all []time.Duration
	var sum time.Duration
	for _, one := range single {
		if one.arrived != 0 {
			all = append(all, one.arrived-one.sent)
			sum += one.arrived - one.sent
		}
	}
	if len(all) == 0 {
		return
	}
	slices.Sort(all)
	m.DelayMin, m.DelayMedian, m.DelayMean = all[0], all[len(all)/2], sum/time.Duration(len(all))
}

// trainRate is the median rate of a train's segments, so that a pause of the sender does not make a
// link look slow. With jitter, larger than the time of a segment, it is the rate of the whole
// train.
func trainRate(train []probe, length int, whole bool) units.BitRate {
	if whole || len(train) < 2*segments {
		return segmentRate(train, length)
	}
	var rates []units.BitRate
	for i := range segments {
		if rate := segmentRate(train[i*len(train)/segments:(i+1)*len(train)/segments], length); rate > 0 {
			rates = append(rates, rate)
		}
	}
	if len(rates) == 0 {
		return segmentRate(train, length)
	}
	slices.Sort(rates)
	return rates[len(rates)/2]
}

// segmentRate is the rate between the first and the last arrival. Frames lost after the bottleneck
// count, because they used it too.
func segmentRate(train []probe, length int) units.BitRate {
	first, last := -1, -1
	for i, one := range train {
		if one.arrived == 0 {
			continue
		}
		if first < 0 {
			first = i
		}
		last = i
	}
	if first < 0 || train[last].arrived <= train[first].arrived {
		return 0
	}
	bits := float64(last-first) * float64(length+link.FrameOverhead) * 8
	return units.BitRate(math.Round(bits / (train[last].arrived - train[first].arrived).Seconds()))
}
