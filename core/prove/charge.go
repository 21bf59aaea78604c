// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"context"
	"fmt"
	"time"

	"weir/core/module"
	"weir/core/policy"
	"weir/core/prove/station"
	"weir/core/selector"
	"weir/internal/direction"
	"weir/internal/units"
	"weir/internal/wait"
)

// The charge of a flow is judged by bytes, not rates: the flow is sent well below the promise, and
// the charged bytes are divided by the received ones.
const (
	gentlest = 20_000_000 // bit/s, maximum
	gentle   = 0.4        // of the promise, maximum
	minSum   = 20_000     // bytes; a flow has more, so that its handshake does not matter
	// chargedNot, chargedLow and chargedHigh bound the quotient.
	chargedNot, chargedLow, chargedHigh = 0.2, 0.9, 1.1
	// quiet is the maximum share of a flow that other traffic of the scope may have; quietTime is
	// the time of its measurement before.
	quiet     = 0.05
	quietTime = 200 * time.Millisecond
)

// charged is a scope, the check that bypasses are tried with, and how to be in the scope.
type charged struct {
	scope  policy.Scope
	module string
	check  module.Check
	inside selector.Inside
}

func (s charged) meter() *meter {
	return &meter{module: s.module, scope: s.scope.Name, part: s.check.Part, charged: s.check.Charged}
}

// charge is the result of a flow.
type charge struct {
	quotient float64
	counted  counters
	noise    string // why the quotient is meaningless; "" if it is not
}

// gently returns a flow well below a rate, 0 for any, and its minimum duration.
func gently(d direction.Direction, below units.BitRate) (station.Flow, time.Duration) {
	rate := units.BitRate(gentlest)
	if below > 0 {
		rate = min(rate, units.BitRate(gentle*float64(below)))
	}
	return station.Flow{Protocol: station.TCP, Connections: 1, Rate: rate, Reverse: d == direction.Ingress},
		max(400*time.Millisecond, time.Duration(minSum*8e9/float64(rate)))
}

// charge sends a flow on a route and returns the charged bytes per received byte. It calls between,
// if not nil, when the stations are connected and nothing has been sent.
func (r *runner) charge(ctx context.Context, s charged, at route, between func(*station.Pair) error) (c charge, err error) {
	f, long := gently(s.check.Direction, s.check.Promise)
	ctx, cancel := context.WithTimeout(ctx, long+30*time.Second)
	defer cancel()
	foreign, err := r.foreign(ctx, s)
	if err != nil {
		return c, err
	}
	before, err := r.read(s.meter())
	if err != nil {
		return c, err
	}
	f.Congestion = r.o.Congestion
	pair, err := r.connect(ctx, at, f)
	if err != nil {
		return c, err
	}
	defer pair.Close()
	if between != nil {
		if err := between(pair); err != nil {
			return c, err
		}
	}
	received, err := pair.Transfer(ctx, long)
	if err != nil {
		return c, at.failed(err)
	}
	after, err := r.read(s.meter())
	if err != nil {
		return c, err
	}
	c = quotient(after.since(before)[s.check.Charged.Octets], received)
	c.counted = after.since(before)
	if c.noise == "" && foreign*long.Seconds() > quiet*float64(received.Wire) {
		c.noise = fmt.Sprintf("the scope has traffic of its own, %s at the moment", units.BitRate(foreign*8))
	}
	return c, nil
}

// quotient returns charged divided by received bytes.
func quotient(octets uint64, received station.Tally) (c charge) {
	c.quotient = float64(octets) / float64(max(received.Wire, 1))
	if received.Octets < minSum/4 {
		c.noise = fmt.Sprintf("only %s arrived", units.ByteSize(received.Octets))
	}
	return c
}

// foreign returns the bytes per second of other traffic of the scope.
func (r *runner) foreign(ctx context.Context, s charged) (float64, error) {
	before, err := r.read(s.meter())
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := wait.For(ctx, quietTime); err != nil {
		return 0, err
	}
	after, err := r.read(s.meter())
	return float64(after.since(before)[s.check.Charged.Octets]) / time.Since(began).Seconds(), err
}

// judgeCharge converts a quotient to a state with its reason.
func judgeCharge(c charge) (State, string) {
	switch q := c.quotient; {
	case c.noise != "":
		return Unknown, c.noise
	case q < chargedNot:
		return CanEscape, "it is not charged"
	case q < chargedLow:
		return Unknown, fmt.Sprintf("%.0f %% of it were charged", 100*q)
	case q <= chargedHigh:
		return Covered, "it is charged once"
	}
	return Covered, fmt.Sprintf("it is charged %.1f times", c.quotient)
}

// of returns the state of a bypass for a charge, with the mechanism.
func of(c charge, mechanism string) Bypass {
	state, what := judgeCharge(c)
	b := Bypass{State: state, Why: mechanism + ": " + what}
	if c.noise == "" {
		b.Charged = &c.quotient
	}
	return b
}
