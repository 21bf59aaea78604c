package prove

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"weir/internal/kernel/cgroup"
	"weir/internal/kernel/netns"
	"weir/internal/prove/station"
	"weir/internal/units"
	"weir/limit"
	"weir/policy"
)

const (
	// flows is how many TCP connections share a scope; at rates below severalFrom there is one, whose packets are far apart.
	flows       = 4
	severalFrom = 10_000_000
	// offered is what a UDP flow sends, as a multiple of the promise.
	offered = 1.25
	// overhead is what a measurement takes beside its windows: two processes and some handshakes.
	overhead = 150 * time.Millisecond
)

// route is where a near station lives and whom it talks to.
type route struct {
	group cgroup.Cgroup
	ns    *netns.Namespace
	user  uint32
	late  bool // it becomes that user once its sockets are open
	peer  station.Peer
}

// connect starts a flow on a route.
func (r *runner) connect(ctx context.Context, at route, f station.Flow) (*station.Pair, error) {
	group, err := r.bed.hold(at.group)
	if err != nil {
		return nil, err
	}
	return station.Connect(ctx, at.peer, station.Place{Enter: enter(group, at.ns), User: &at.user, Late: at.late}, f)
}

// warmup lets a scope that was idle use its burst and fill its virtual queue.
func warmup(promise units.BitRate) time.Duration {
	return 300*time.Millisecond + time.Duration(2*44*fullFrame*8e9/float64(promise))
}

// took is how long a test's repetition takes.
func (o Options) took(t Test) time.Duration { return warmup(t.Promise) + o.Duration + overhead }

// flowOf is the flow that a test sends: TCP as it comes, UDP above the rate.
func flowOf(t Test) station.Flow {
	f := station.Flow{Protocol: station.Protocol(t.Path.Protocol), Connections: 1, Reverse: t.Direction == limit.Ingress}
	if f.Protocol == station.UDP {
		f.Rate = units.BitRate(offered * float64(t.Promise) * station.Payload / (station.Payload + 42))
	} else if t.Promise >= severalFrom {
		f.Connections = flows
	}
	return f
}

// routeOf is how a test's traffic goes. A scope of a prefix is tested between two namespaces of our own, where any address
// can be had without asking whose it is.
func (r *runner) routeOf(t Test) (at route, err error) {
	at = route{ns: r.bed.here, group: r.bed.outside, user: t.user}
	if t.group != "" {
		if at.group, err = r.bed.inside(t.group); err != nil {
			return at, err
		}
	}
	family := 0
	if t.Path.IPv6 {
		family = 1
	}
	switch {
	case r.o.Peer != nil:
		at.peer = *r.o.Peer
	case t.Scope.Applies.Kind == policy.Prefix:
		at.ns = r.bed.near
		address, err := r.bed.addressIn(t.Scope.Applies.Prefix)
		if err != nil {
			return at, err
		}
		at.peer = r.bed.peerAt(address)
	case t.Scope.Applies.Kind == policy.Interface:
		d, err := r.bed.through(t.Scope.Applies.Text)
		if err != nil {
			return at, err
		}
		at.peer = r.bed.peerAt(d.link.there[family].Addr())
	default:
		at.peer = r.bed.peerAt(r.bed.links[fromHere].there[family].Addr())
	}
	return at, nil
}

// edge is what is read when a window begins and when it ends.
type edge struct {
	at       time.Time
	counters limit.Counters
	cpu      processors
}

func (r *runner) edge(scope string, direction limit.Direction) (e edge, err error) {
	e.at = time.Now()
	if scope != "" {
		if e.counters, err = r.counters(scope, direction); err != nil {
			return e, err
		}
	}
	e.cpu, err = readProcessors()
	return e, err
}

// counters reads one direction of a scope that is in force.
func (r *runner) counters(scope string, direction limit.Direction) (limit.Counters, error) {
	status, err := r.o.Engine.Status()
	if err != nil {
		return limit.Counters{}, err
	}
	for _, s := range status.Scopes {
		counted := s.Egress
		if direction == limit.Ingress {
			counted = s.Ingress
		}
		if s.Scope.Name == scope && counted != nil {
			return *counted, nil
		}
	}
	return limit.Counters{}, fmt.Errorf("the scope %s is no longer in force", scope)
}

// measure sends one flow on a route and returns what passed; the counters are those of scope, or none if it is "".
func (r *runner) measure(ctx context.Context, at route, f station.Flow, scope string, direction limit.Direction,
	warm, duration time.Duration) (s Sample, err error) {
	ctx, cancel := context.WithTimeout(ctx, warm+duration+30*time.Second)
	defer cancel()
	f.Congestion = r.o.Congestion
	before, err := r.edge(scope, direction)
	if err != nil {
		return s, err
	}
	pair, err := r.connect(ctx, at, f)
	if err != nil {
		return s, err
	}
	defer pair.Close()
	var edges []edge
	measured, err := pair.Measure(ctx, warm, duration, func() error {
		e, err := r.edge(scope, direction)
		edges = append(edges, e)
		return err
	})
	if err != nil {
		return s, err
	}
	first, last := edges[0], edges[1]
	took := last.at.Sub(first.at).Seconds()
	got := measured.Received
	s.Counters = since(last.counters, first.counters)
	s.Charged = float64(s.Counters.Bytes) * 8 / took
	after, err := r.edge(scope, direction)
	if err != nil {
		return s, err
	}
	size := station.Datagram(at.peer.Target.Addr())
	whole := since(after.counters, before.counters)
	s.Drops = unread(got, s.Counters, direction)
	s.Received = float64(got.Wire+s.Drops*size) * 8 / got.At.Seconds()
	s.Quotient = float64(whole.Bytes) / float64(max(measured.All.Wire+unread(measured.All, whole, direction)*size, 1))
	s.Busy = last.cpu.busySince(first.cpu)
	s.Delay = max(0, measured.Delay.Mean-measured.Delay.Idle)
	return s, nil
}

// unread are the datagrams that have arrived and were not read, since the receiver's buffer was full. Those that an ingress
// limit has refused are among a socket's drops as well, and have not arrived.
func unread(t station.Tally, c limit.Counters, direction limit.Direction) uint64 {
	if direction == limit.Ingress {
		return t.Drops - min(t.Drops, c.Refused)
	}
	return t.Drops
}

// since is what was counted between two readings; the histogram is left out.
func since(after, before limit.Counters) limit.Counters {
	return limit.Counters{
		Packets: after.Packets - before.Packets, Segments: after.Segments - before.Segments, Bytes: after.Bytes - before.Bytes,
		Marked: after.Marked - before.Marked, Reduced: after.Reduced - before.Reduced, Refused: after.Refused - before.Refused,
		Forced: after.Forced - before.Forced, Retries: after.Retries - before.Retries,
	}
}

// way is what a calibration is good for: all tests that go the same way in the same direction.
type way struct {
	path      Path
	direction limit.Direction
	near      bool
	detour    bool
}

func wayOf(t Test, own bool) way {
	return way{t.Path, t.Direction, own && t.Scope.Applies.Kind == policy.Prefix, own && t.Scope.Applies.Kind == policy.Interface}
}

// calibrate measures what a way carries from outside of every scope, for the highest promise on it.
func (r *runner) calibrate(ctx context.Context, w way, highest Test) (units.BitRate, string, error) {
	at := route{ns: r.bed.here, group: r.bed.outside, user: highest.user}
	family := 0
	if w.path.IPv6 {
		family = 1
	}
	switch {
	case r.o.Peer != nil:
		at.peer = *r.o.Peer
	case w.near:
		at.ns, at.peer = r.bed.near, r.bed.peerAt(r.bed.links[fromNear].there[family].Addr())
	case w.detour:
		// The same way through a device that no scope is of.
		d, err := r.bed.through(r.bed.device)
		if err != nil {
			return 0, "", err
		}
		at.peer = r.bed.peerAt(d.link.there[family].Addr())
	default:
		at.peer = r.bed.peerAt(r.bed.links[fromHere].there[family].Addr())
	}
	device := ""
	if r.o.Peer != nil {
		device, _ = deviceTo(at.peer.Target.Addr()) // without one, no interface's scope is in the way
	}
	if why := uncovered(r.scopes, w.direction, at.peer.Target.Addr(), device); why != "" {
		return 0, why, nil
	}
	s, err := r.measure(ctx, at, flowOf(highest), "", w.direction, 200*time.Millisecond, min(r.o.Duration, time.Second))
	return units.BitRate(s.Received), "", err
}

// addressIn is an address of a prefix, the peer's for as long as it lives.
func (t *testbed) addressIn(p netip.Prefix) (netip.Addr, error) {
	address := hostOf(p)
	return address, t.give(address)
}

// hostOf is an address of a prefix that a host may have: the second one where there are some.
func hostOf(p netip.Prefix) netip.Addr {
	if p.Bits() <= p.Addr().BitLen()-2 {
		return p.Addr().Next().Next()
	}
	return p.Addr()
}

// peerAt is the peer for stations that reach it at an address.
func (t *testbed) peerAt(a netip.Addr) station.Peer {
	return station.Peer{Control: netip.AddrPortFrom(t.links[fromHere].there[0].Addr(), t.port),
		Target: netip.AddrPortFrom(a, t.port), Token: t.token}
}
