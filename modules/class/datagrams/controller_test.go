// SPDX-License-Identifier: Apache-2.0

package datagrams

import (
	"testing"
	"time"
)

// simulated is a simulated bottleneck with a clock of its own: a rate, a drop-tail queue of one
// bandwidth-delay product, and a round trip.
type simulated struct {
	now    time.Duration
	rate   float64 // octets/s
	rtt    time.Duration
	queue  float64 // octets
	window float64 // octets: of the production transfer; 0 for none
	lost   bool    // since the last reduction
	cut    time.Duration
	passed [2]float64 // octets of the datagrams and of production
}

func (l *simulated) waits() time.Duration { return time.Duration(l.queue / l.rate * 1e9) }

// advance lets time pass with datagrams at a rate, beside a transfer that grows by a packet per
// round trip and takes 0.7 of its window after a loss.
func (l *simulated) advance(d time.Duration, datagrams float64) {
	const step = time.Millisecond
	for until := l.now + d; l.now < until; l.now += step {
		rtt := (l.rtt + l.waits()).Seconds()
		production := l.window / rtt
		in := (datagrams + production) * step.Seconds()
		out := min(l.rate*step.Seconds(), l.queue+in)
		if in > 0 {
			l.passed[0] += out * datagrams / (datagrams + production)
			l.passed[1] += out * production / (datagrams + production)
		}
		l.queue += in - out
		most := l.rate * l.rtt.Seconds()
		if l.lost = l.queue > most; l.lost {
			l.queue = most
		}
		switch {
		case l.window == 0:
		case l.lost && l.now > l.cut:
			l.window *= 0.7
			l.cut = l.now + time.Duration(rtt*1e9)
		default:
			l.window += packet * step.Seconds() / rtt
		}
	}
}

// run steers datagrams of a greedy sender for a time. It returns their share of the link, and the
// share of production.
func (l *simulated) run(c *controller, d time.Duration) (datagrams, production float64) {
	before := l.passed
	for until := l.now + d; l.now < until; {
		rtt := l.rtt + l.waits()
		l.advance(c.interval(), c.rate)
		if l.lost {
			c.lose(l.now)
		} else {
			c.sample(l.now, rtt, 2*c.rate)
		}
	}
	octets := l.rate * d.Seconds()
	return (l.passed[0] - before[0]) / octets, (l.passed[1] - before[1]) / octets
}

// TestDatagramsYieldAndReturn steers the datagrams of a greedy sender on an idle link, beside a TCP
// transfer, and alone again.
func TestDatagramsYieldAndReturn(t *testing.T) {
	for name, l := range map[string]*simulated{
		"20 Mbit/s, 20 ms":  {rate: 2.5e6, rtt: 20 * time.Millisecond},
		"5 Mbit/s, 100 ms":  {rate: 625e3, rtt: 100 * time.Millisecond},
		"100 Mbit/s, 10 ms": {rate: 12.5e6, rtt: 10 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			c := newController(0)
			early, _ := l.run(c, 4*time.Second)
			alone, _ := l.run(c, 10*time.Second)
			l.window = 10 * packet
			l.run(c, 4*time.Second)
			beside, production := l.run(c, 20*time.Second)
			l.window = 0
			l.run(c, time.Second)
			back, _ := l.run(c, 5*time.Second)
			t.Logf("early %.3f, alone %.3f, beside %.3f and production %.3f, back %.3f", early, alone, beside, production, back)
			if early < 0.5 || alone < 0.75 || production < 0.95 || back < 0.6 {
				t.Error("want half of the link at first, then 75 %, 95 % for production, 60 % again")
			}
		})
	}
}
