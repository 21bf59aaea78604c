// SPDX-License-Identifier: Apache-2.0

// Package predict computes the goodput that the published equations of TCP predict for a path:
// Mathis, PFTK and CUBIC.
//
// All take p as the rate of loss events (window reductions per segment sent), not of lost segments:
// several losses in one round trip are one event, and at 10 % loss the two differ by a factor. They
// describe one long-lived flow that only loss limits. If the link or a buffer limits it, they are
// upper bounds: see [Prediction.Within].
package predict

import (
	"math"
	"time"
)

// Path holds the inputs of an equation.
type Path struct {
	MSS       int           // bytes of payload per segment: 1448 with IPv4 and timestamps in 1500
	RTT       time.Duration // mean round-trip time, queueing included
	LossEvent float64       // loss event rate p, 0 to 1
}

// Regime is the factor that limits a flow in a model.
type Regime string

const (
	NoLoss          Regime = "no loss"          // p is 0: the equation is unbounded
	WindowReduction Regime = "window reduction" // loss halves the window, timeouts play no part
	Timeouts        Regime = "timeouts"         // more than half of the time goes to retransmission timeouts
	RenoFriendly    Regime = "Reno-friendly"    // CUBIC behaves as Reno would (RFC 9438 section 4.3)
	CubicGrowth     Regime = "concave/convex"   // CUBIC's own function gives the larger window (sections 4.4 and 4.5)
	Limited         Regime = "link"             // the path's capacity is below the equation's rate
)

// Prediction is a model's result. Rate is goodput in bit/s: +Inf without loss, NaN for a path
// without RTT or MSS.
type Prediction struct {
	Model  string
	Rate   float64
	Regime Regime
}

// Within returns the prediction on a path with a maximum goodput of limit bit/s; 0 is no limit.
func (p Prediction) Within(limit float64) Prediction {
	if limit > 0 && p.Rate > limit {
		p.Rate, p.Regime = limit, Limited
	}
	return p
}

// usable reports whether the equation applies; otherwise rate is the result.
func (p Path) usable() (rate float64, ok bool) {
	switch {
	case p.MSS <= 0 || p.RTT <= 0 || p.LossEvent < 0 || p.LossEvent > 1 || math.IsNaN(p.LossEvent):
		return math.NaN(), false
	case p.LossEvent == 0:
		return math.Inf(1), false
	}
	return 0, true
}

// rate is the goodput of a mean window in segments.
func (p Path) rate(window float64) float64 {
	return window * float64(p.MSS) * 8 / p.RTT.Seconds()
}

// LossEventRate returns p from counters: loss events per data segment sent; 0 if nothing was sent.
// More events than segments count as 1.
func LossEventRate(events, segments uint64) float64 {
	if segments == 0 {
		return 0
	}
	return min(1, float64(events)/float64(segments))
}

// LinkGoodput returns the maximum payload rate of a link in bit/s, with full segments. The link's
// rate includes Ethernet's header, FCS, preamble and gap (38 bytes a frame), as Weir's links do:
// 941.5 Mbit/s of 1 Gbit/s at MSS 1448 in an MTU of 1500.
func LinkGoodput(rate float64, mss, mtu int) float64 {
	if mtu <= 0 {
		return math.NaN()
	}
	return rate * float64(mss) / float64(mtu+38)
}
