// SPDX-License-Identifier: Apache-2.0

package station

import "time"

// The constants of RFC 9002.
const (
	firstWindow = 10.0 // datagrams (section 7.2)
	minWindow   = 2.0
	reordered   = 3 // datagrams behind the last one acknowledged are lost (6.1.1)
	// granularity is the minimum time for loss detection (6.1.2); firstRTT is the initial round
	// trip (6.2.2).
	granularity = time.Millisecond
	ackDelay    = 25 * time.Millisecond // maximum delay of an acknowledgement (6.2.1)
	firstRTT    = 333 * time.Millisecond
	paceGain    = 1.25 // multiple of a window per round trip (7.7)
	maxBurst    = 10   // datagrams in a burst (7.7)
	persistent  = 3    // consecutive timeouts that reset the window (7.6.1)
)

// control is QUIC's loss detection with NewReno (RFC 9002), without ECN. Windows are in datagrams.
type control struct {
	window, threshold  float64
	smoothed, variance time.Duration // of the round trip; 0 before the first
	flight             []departed    // in order, from the oldest in flight
	next, largest      uint64        // numbers: of the next datagram, of the last acknowledged
	under              int           // datagrams in flight
	recovery           time.Time     // losses of packets sent before it do not count again
	due                time.Time     // of the next datagram, by the pace
	last               time.Time     // time of the last datagram or acknowledgement
	probing            int           // consecutive silences
}

// departed is a sent datagram.
type departed struct {
	number uint64
	at     time.Time
	done   bool // acknowledged, or lost
}

func newControl() control { return control{window: firstWindow, threshold: 1 << 30, next: 1} }

func (c *control) flying() int { return c.under }

// send records the departure of a datagram and returns its number.
func (c *control) send(now time.Time) uint64 {
	number := c.next
	c.next, c.under = c.next+1, c.under+1
	c.flight, c.last = append(c.flight, departed{number: number, at: now}), now
	if c.due.Before(now) {
		c.due = now
	}
	c.due = c.due.Add(c.gap())
	return number
}

// gap returns the time between two datagrams.
func (c *control) gap() time.Duration {
	return time.Duration(float64(c.smoothed) / (paceGain * c.window))
}

// wait returns the time until the next datagram may leave: when the window opens, which an
// acknowledgement may bring forward, or by the pace. After a silence, a probe is allowed.
func (c *control) wait(now time.Time) time.Duration {
	if float64(c.under) >= c.window {
		if left := c.timeout() - now.Sub(c.last); left > 0 {
			return left
		}
		if c.probing++; c.probing > persistent {
			c.expire()
		}
		return 0
	}
	if ahead := c.due.Sub(now); ahead > maxBurst*c.gap() {
		return ahead
	}
	return 0
}

// timeout is the silence after which a probe is sent (RFC 9002, section 6.2.1).
func (c *control) timeout() time.Duration {
	if c.smoothed == 0 {
		return 2 * firstRTT << c.probing
	}
	return (c.smoothed + max(4*c.variance, granularity) + ackDelay) << c.probing
}

// expire declares all datagrams in flight lost: persistent congestion (7.6).
func (c *control) expire() {
	c.flight, c.under, c.probing = nil, 0, 0
	c.threshold, c.window = max(c.window/2, minWindow), minWindow
}

// acknowledge processes the acknowledgement of one datagram.
func (c *control) acknowledge(number uint64, now time.Time) {
	for i := range c.flight {
		d := &c.flight[i]
		if d.number != number || d.done {
			continue
		}
		d.done, c.under, c.probing, c.last = true, c.under-1, 0, now
		c.largest = max(c.largest, number)
		c.sample(now.Sub(d.at))
		if d.at.After(c.recovery) {
			c.grow()
		}
		break
	}
	c.detect(now)
	c.forget()
}

// sample updates the round-trip time (RFC 9002, section 5.3).
func (c *control) sample(rtt time.Duration) {
	if c.smoothed == 0 {
		c.smoothed, c.variance = rtt, rtt/2
		return
	}
	c.variance = (3*c.variance + (c.smoothed - rtt).Abs()) / 4
	c.smoothed = (7*c.smoothed + rtt) / 8
}

func (c *control) grow() {
	if c.window < c.threshold {
		c.window++
		return
	}
	c.window += 1 / c.window
}

// detect marks losses: three packets behind the last acknowledged one, or 9/8 of a round trip
// before it.
func (c *control) detect(now time.Time) {
	late := max(c.smoothed*9/8, granularity)
	for i := range c.flight {
		d := &c.flight[i]
		if d.number >= c.largest {
			return
		}
		if d.done || d.number+reordered > c.largest && now.Sub(d.at) < late {
			continue
		}
		d.done, c.under = true, c.under-1
		if d.at.After(c.recovery) {
			c.recovery, c.window = now, max(c.window/2, minWindow)
			c.threshold = c.window
		}
	}
}

// forget drops completed entries from the start.
func (c *control) forget() {
	for len(c.flight) > 0 && c.flight[0].done {
		c.flight = c.flight[1:]
	}
}
