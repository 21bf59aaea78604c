package prove

import (
	"context"
	"fmt"
	"time"

	"weir/internal/prove/station"
	"weir/internal/units"
	"weir/limit"
	"weir/policy"
)

// Whether a flow was charged is told by octets, not by rates: it is sent well below the limit, and what the scope was charged
// is divided by what arrived.
const (
	gentlest = 20_000_000 // bit/s, at most
	gentle   = 0.4        // of the promise, at most
	leastSum = 20_000     // octets that a flow must have, so that its handshake does not count
	// chargedNot and chargedOnce and chargedTwice bound the quotient.
	chargedNot, chargedLow, chargedHigh = 0.2, 0.9, 1.1
	// quiet is the part of a flow that other traffic of the scope may be; it is measured for quietTime before.
	quiet     = 0.05
	quietTime = 200 * time.Millisecond
)

// charge is what a flow has shown.
type charge struct {
	quotient float64
	received station.Tally
	counted  limit.Counters
	noise    string // why the quotient says nothing; "" if it does
}

// limited is the direction that a scope's ways around are tried in, and its rate.
func limited(s policy.Scope) (limit.Direction, units.BitRate) {
	if s.Egress != nil {
		return limit.Egress, s.Egress.Rate
	}
	return limit.Ingress, s.Ingress.Rate
}

// gently is a flow below the limit, and how long it takes to be long enough.
func gently(direction limit.Direction, promise units.BitRate) (station.Flow, time.Duration) {
	rate := units.BitRate(min(gentlest, gentle*float64(promise)))
	return station.Flow{Protocol: station.TCP, Connections: 1, Rate: rate, Reverse: direction == limit.Ingress},
		max(400*time.Millisecond, time.Duration(leastSum*8e9/float64(rate)))
}

// charged sends a flow on a route and says how often the scope was charged for each octet. Between is called when the
// stations are connected and nothing has been sent; it may be nil.
func (r *runner) charged(ctx context.Context, s policy.Scope, at route, between func(*station.Pair) error) (c charge, err error) {
	direction, promise := limited(s)
	f, long := gently(direction, promise)
	ctx, cancel := context.WithTimeout(ctx, long+30*time.Second)
	defer cancel()
	foreign, err := r.foreign(ctx, s.Name, direction)
	if err != nil {
		return c, err
	}
	before, err := r.counters(s.Name, direction)
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
	if c.received, err = pair.Transfer(ctx, long); err != nil {
		return c, err
	}
	after, err := r.counters(s.Name, direction)
	if err != nil {
		return c, err
	}
	c.counted = since(after, before)
	c.quotient = float64(c.counted.Bytes) / float64(max(c.received.Wire, 1))
	if foreign*long.Seconds() > quiet*float64(c.received.Wire) {
		c.noise = fmt.Sprintf("the scope has traffic of its own, %s at the moment", units.BitRate(foreign*8))
	}
	if c.received.Octets < leastSum/4 {
		c.noise = fmt.Sprintf("only %s arrived", units.ByteSize(c.received.Octets))
	}
	return c, nil
}

// foreign is the traffic that the scope has while nothing is sent to it, in octets per second.
func (r *runner) foreign(ctx context.Context, scope string, direction limit.Direction) (float64, error) {
	before, err := r.counters(scope, direction)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(quietTime):
	}
	after, err := r.counters(scope, direction)
	return float64(after.Bytes-before.Bytes) / time.Since(began).Seconds(), err
}

// judgeCharge turns a quotient into a state and words.
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

// insideOf is the route of a scope's own traffic from this namespace or, with near, from another one.
func (r *runner) insideOf(s policy.Scope, near, ipv6 bool) (route, error) {
	at := route{ns: r.bed.here, group: r.bed.outside, user: freeUser(r.scopes)}
	switch s.Applies.Kind {
	case policy.User:
		at.user = s.Applies.User
	case policy.Cgroup, policy.Unit, policy.Host:
		path, missing, err := r.o.Engine.Cgroup(s.Applies)
		if err == nil && missing != "" {
			err = fmt.Errorf("%s", missing)
		}
		if err != nil {
			return at, err
		}
		if at.group, err = r.bed.inside(path); err != nil {
			return at, err
		}
	}
	family, from := 0, fromHere
	if ipv6 {
		family = 1
	}
	if near {
		at.ns, from = r.bed.near, fromNear
	}
	target := r.bed.links[from].there[family].Addr()
	if s.Applies.Kind == policy.Prefix {
		at.ns = r.bed.near
		address, err := r.bed.addressIn(s.Applies.Prefix)
		if err != nil {
			return at, err
		}
		target = address
	}
	if s.Applies.Kind == policy.Interface && !near {
		d, err := r.bed.through(s.Applies.Text)
		if err != nil {
			return at, err
		}
		target = d.link.there[family].Addr()
	}
	at.peer = r.bed.peerAt(target)
	return at, nil
}
