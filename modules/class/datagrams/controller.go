// SPDX-License-Identifier: Apache-2.0

package datagrams

import (
	"math"
	"time"
)

// Parameters of the controller.
const (
	target   = 5 * time.Millisecond // of the queueing delay, as scavenger
	packet   = 1500.0               // octets
	initial  = 10 * packet          // octets per round trip (RFC 6928)
	yielding = 0.6                  // packets per round trip beside other traffic
	minRate  = 4_000.0              // octets/s
	// Unmeasured is the rate without echo replies, in octets/s: 256 kbit/s.
	Unmeasured = 32_000.0
	maxRate    = 12.5e9
	samples    = 4 // the delay is the minimum of the last samples
	minutes    = 10
	rest       = 9 // time to the next slowdown, relative to the duration of the last
)

type phase int

const (
	start phase = iota // the first slow start
	avoid              // congestion avoidance
	drain              // a slowdown: the least rate for two round trips
	climb              // slow start after it
)

// controller computes the rate. Times are those of one clock.
type controller struct {
	rate   float64 // octets/s
	saved  float64 // before the slowdown
	phase  phase
	base   [minutes]time.Duration // minimum of each minute, the current one first; 0 without a sample
	recent [samples]time.Duration // the latest first; 0 without a sample
	minute time.Duration          // start of the current minute
	srtt   time.Duration
	last   time.Duration // last step
	began  time.Duration // start of the last slowdown
	until  time.Duration // start of the next one, or end of its two round trips
	hold   time.Duration // until then delay does not change the rate
	past   [32]moment    // the latest first
	clean  float64       // octets/s: the last rate without a queue
	goal   float64       // octets/s: the rate after slow start, once the queue has drained
}

// moment is a rate from some time on.
type moment struct {
	at   time.Duration
	rate float64
}

func newController(now time.Duration) *controller {
	return &controller{rate: Unmeasured, last: now, minute: now}
}

// delay returns the base delay and the queueing delay.
func (c *controller) delay() (base, queue time.Duration) {
	for _, b := range c.base {
		if b > 0 && (base == 0 || b < base) {
			base = b
		}
	}
	least := time.Duration(0)
	for _, r := range c.recent {
		if r > 0 && (least == 0 || r < least) {
			least = r
		}
	}
	return base, max(0, least-base)
}

func (c *controller) least() float64 { return max(minRate, yielding*packet/c.srtt.Seconds()) }

func (c *controller) set(rate float64) { c.rate = min(maxRate, max(c.least(), rate)) }

// sample takes a round-trip time and the rate of the command's datagrams in octets per second since
// the last step, dropped ones included, and sets the rate.
func (c *controller) sample(now, rtt time.Duration, offered float64) {
	if now-c.minute >= time.Minute {
		c.minute = now
		copy(c.base[1:], c.base[:])
		c.base[0] = 0
	}
	if c.base[0] == 0 || rtt < c.base[0] {
		c.base[0] = rtt
	}
	first := c.srtt == 0
	copy(c.recent[1:], c.recent[:])
	c.recent[0] = rtt
	if first {
		c.srtt = rtt
		c.set(initial / rtt.Seconds())
	}
	c.srtt += (rtt - c.srtt) / 8
	trips := min(1, (now-c.last).Seconds()/c.srtt.Seconds()) // since the last step
	c.last = now
	base, queue := c.delay()
	c.remember(now, rtt, base)
	limited := offered >= c.rate/2
	switch c.phase {
	case start, climb:
		c.slowStart(now, trips, queue, limited)
	case drain:
		if now >= c.until {
			c.phase = climb
		}
	case avoid:
		c.avoid(now, trips, base, queue, limited)
	}
}

func (c *controller) slowStart(now time.Duration, trips float64, queue time.Duration, limited bool) {
	again := c.phase == climb
	above := again && c.rate >= c.saved
	switch {
	case queue > target*3/4 || above && queue >= target/4:
		c.settle(now)
	case limited && above:
		c.set(c.rate * math.Pow(1.19, trips))
	case limited && again:
		c.set(min(c.saved, c.rate*math.Pow(2, trips)))
	case limited:
		c.set(c.rate * math.Pow(2, trips))
	}
}

// settle ends slow start. The queue drains for two round trips; then the rate is the last one that
// made none.
func (c *controller) settle(now time.Duration) {
	c.until = now + 2*c.srtt
	if c.phase == climb {
		c.until = now + rest*(now-c.began)
	}
	c.phase, c.hold, c.goal = avoid, now+2*c.srtt, 0.95*c.clean
	c.set(min(c.rate, c.clean) * 0.75)
}

func (c *controller) avoid(now time.Duration, trips float64, base, queue time.Duration, limited bool) {
	if now >= c.until {
		c.phase, c.began, c.until, c.saved = drain, now, now+2*c.srtt, max(c.rate, c.goal)
		c.set(0)
		return
	}
	if now < c.hold {
		return
	}
	goal := c.goal
	c.goal = 0
	gain := 1 / max(1, min(16, math.Ceil(2*float64(target)/float64(base))))
	if excess := float64(queue)/float64(target) - 1; excess > 0 {
		c.set(c.rate * (1 - min(0.5, excess)*trips))
	} else if limited {
		c.set(max(goal, c.rate+gain*packet/c.srtt.Seconds()*trips))
	}
}

// remember stores the rate, and updates clean by a sample that met no queue.
func (c *controller) remember(now, rtt, base time.Duration) {
	if rtt-base < target/4 {
		for _, past := range c.past {
			if past.at <= now-rtt {
				c.clean = past.rate
				break
			}
		}
	}
	copy(c.past[1:], c.past[:])
	c.past[0] = moment{now, c.rate}
}

// lose takes the loss of an echo: half of the rate, at most once per round trip.
func (c *controller) lose(now time.Duration) {
	if c.srtt == 0 || now < c.hold || c.phase == drain {
		return
	}
	if c.phase != avoid {
		c.settle(now)
		return
	}
	c.hold, c.goal = now+c.srtt, 0
	c.set(c.rate / 2)
}

// silence is that no echo returns: without a measure the rate is a fixed one.
func (c *controller) silence() { c.rate = min(c.rate, Unmeasured) }

// interval is the time between two echo requests: a quarter of a round trip, and a hundredth of the
// rate at most.
func (c *controller) interval() time.Duration {
	const octets = 64
	if c.srtt == 0 {
		return 20 * time.Millisecond
	}
	return min(100*time.Millisecond, max(5*time.Millisecond, c.srtt/4, time.Duration(100*octets/c.rate*float64(time.Second))))
}

// burst is the permitted length of the virtual queue at a rate: 5 ms, or two packets.
func burst(rate float64) time.Duration {
	return max(5*time.Millisecond, time.Duration(2*packet/rate*float64(time.Second)))
}
