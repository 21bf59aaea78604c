package prove

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/internal/kernel/netns"
	"weir/internal/kernel/sockdiag"
	"weir/internal/prove/station"
	"weir/internal/units"
	"weir/limit"
	"weir/policy"
)

// check is one way around.
type check struct {
	name string
	try  func(*runner, context.Context, policy.Scope) (Escape, error)
}

// checks are what is tried for every scope, in this order.
func checks() []check {
	return []check{
		{"sockets opened before", (*runner).movedProcess},
		{"tunnel", (*runner).tunnel},
		{"loopback", (*runner).loopback},
		{"super-packets", (*runner).superPackets},
		{"another network namespace", (*runner).anotherNamespace},
		{"IPv6", (*runner).otherFamily},
	}
}

// wayTook is about how long one check takes.
func wayTook(promise units.BitRate) time.Duration {
	_, long := gently(limit.Egress, promise)
	return quietTime + long + overhead
}

// escapes tries every way around every scope that is enforced. What goes wrong is the check's own.
func (r *runner) escapes(ctx context.Context, chosen []policy.Scope) error {
	for _, s := range chosen {
		_, promise := limited(s)
		for _, c := range checks() {
			if err := ctx.Err(); err != nil {
				return err
			}
			r.report(fmt.Sprintf("%s, way around: %s", s.Name, c.name))
			e, err := c.try(r, ctx, s)
			if err != nil {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				e.State, e.Why = Unknown, err.Error()
			}
			e.Scope, e.Check = s.Name, c.name
			r.result.Escapes = append(r.result.Escapes, e)
			r.left = max(0, r.left-wayTook(promise))
		}
	}
	if len(chosen) == 0 {
		return nil
	}
	r.report("sockets that are open when a limit comes")
	e, err := r.openBefore(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		e.State, e.Why = Unknown, err.Error()
	}
	e.Scope, e.Check = "any", "sockets open at the attach"
	r.result.Escapes = append(r.result.Escapes, e)
	return nil
}

// of is an escape's state by a charge, with the mechanism in words.
func of(c charge, mechanism string) Escape {
	state, what := judgeCharge(c)
	e := Escape{State: state, Why: mechanism + ": " + what}
	if c.noise == "" {
		e.Charged = &c.quotient
	}
	return e
}

// movedProcess opens a socket outside of the scope and then becomes part of it.
func (r *runner) movedProcess(ctx context.Context, s policy.Scope) (Escape, error) {
	if kind := s.Applies.Kind; kind != policy.Cgroup && kind != policy.Unit && kind != policy.User {
		return Escape{State: NotApplicable, Why: "the scope goes by " + goesBy(s.Applies) + ", which no socket keeps from before"}, nil
	}
	at, err := r.insideOf(s, false, false)
	if err != nil {
		return Escape{}, err
	}
	if s.Applies.Kind == policy.User {
		at.late = true
		c, err := r.charged(ctx, s, at, nil)
		return of(c, "a socket keeps the user that opened it, whoever the process becomes"), err
	}
	inside := at.group
	at.group = r.bed.outside
	real, err := r.escaped(s.Name)
	if err != nil {
		return Escape{}, err
	}
	c, err := r.charged(ctx, s, at, func(p *station.Pair) error { return inside.Add(p.PID()) })
	e := of(c, "a socket keeps the cgroup of the process that opened it, whatever becomes of the process")
	if real != "" {
		e.State, e.Why = Escapes, real
	}
	return e, err
}

// escaped names the sockets that processes of the scope use at the moment and that it does not reach; "" where there are none.
func (r *runner) escaped(scope string) (string, error) {
	status, err := r.o.Engine.Status()
	if err == nil {
		err = r.o.Engine.FindEscapes(&status)
	}
	if errors.Is(err, sockdiag.ErrNoCgroups) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	for _, s := range status.Scopes {
		if n := len(s.Escaped); s.Scope.Name == scope && n > 0 {
			return fmt.Sprintf("%d sockets of its processes belong to other cgroups, one of %s (process %d): restart the processes inside the scope",
				n, s.Escaped[0].Command, s.Escaped[0].PID), nil
		}
	}
	return "", nil
}

func goesBy(s policy.Selector) string {
	switch s.Kind {
	case policy.Prefix:
		return "the remote address"
	case policy.Interface:
		return "the device"
	case policy.Host:
		return "all cgroups"
	}
	return string(s.Kind)
}

// loopback sends within one namespace.
func (r *runner) loopback(ctx context.Context, s policy.Scope) (Escape, error) {
	at, err := r.insideOf(s, true, false)
	if err != nil {
		return Escape{}, err
	}
	switch s.Applies.Kind {
	case policy.Prefix:
		// The peer's own address in the prefix: the kernel delivers over lo.
	case policy.Interface:
		return Escape{State: NotApplicable, Why: "the scope is of one device"}, nil
	default:
		at.peer = r.bed.peerAt(loopbackAddress)
	}
	at.ns = r.bed.peer
	c, err := r.charged(ctx, s, at, nil)
	if err != nil {
		return Escape{}, err
	}
	e := of(c, "traffic that stays on the host, over lo")
	if !s.Loopback && e.State == CanEscape {
		e.State, e.Why = NotApplicable, "loopback is exempt, and not charged; loopback: true would cover it"
	}
	return e, nil
}

// anotherNamespace sends from a network namespace that is not the host's.
func (r *runner) anotherNamespace(ctx context.Context, s policy.Scope) (Escape, error) {
	if s.Applies.Kind == policy.Interface {
		return Escape{State: NotApplicable, Why: "a device belongs to one namespace"}, nil
	}
	at, err := r.insideOf(s, true, false)
	if err != nil {
		return Escape{}, err
	}
	c, err := r.charged(ctx, s, at, nil)
	return of(c, "cgroup hooks see the sockets of every network namespace"), err
}

// otherFamily sends by IPv6.
func (r *runner) otherFamily(ctx context.Context, s policy.Scope) (Escape, error) {
	switch {
	case s.Applies.Kind == policy.Interface && s.Applies.Text == loopback:
		return Escape{State: NotApplicable, Why: behindLoopback}, nil
	case s.Applies.Kind == policy.Interface && ipv6Off(s.Applies.Text):
		return Escape{State: NotApplicable, Why: s.Applies.Text + " has no IPv6"}, nil
	case s.Applies.Kind == policy.Prefix:
		return Escape{State: NotApplicable, Why: "a prefix is of one family; the other way to the same host needs a scope of its own"}, nil
	case !r.bed.ipv6:
		return Escape{State: NotApplicable, Why: "this host has no IPv6"}, nil
	}
	at, err := r.insideOf(s, false, true)
	if err != nil {
		return Escape{}, err
	}
	c, err := r.charged(ctx, s, at, nil)
	return of(c, "both families pass the same hooks"), err
}

// openBefore attaches a data plane of its own, for a moment and to a cgroup of its own, while a connection is open.
func (r *runner) openBefore(ctx context.Context) (e Escape, err error) {
	const rate = 20_000_000
	plane, err := limit.Load(1)
	if err != nil {
		return e, err
	}
	defer func() { _ = plane.Close() }()
	here, err := netns.Current()
	if err != nil {
		return e, err
	}
	defer func() { _ = here.Close() }()
	f, long := gently(limit.Egress, rate)
	at := route{ns: r.bed.here, group: r.bed.outside, user: freeUser(r.scopes), peer: r.bed.peerAt(r.bed.links[fromHere].there[0].Addr())}
	pair, err := r.connect(ctx, at, f)
	if err != nil {
		return e, err
	}
	defer pair.Close()
	id, err := r.bed.outside.ID()
	if err != nil {
		return e, err
	}
	if err := plane.AssignCgroup(id, 0); err != nil {
		return e, err
	}
	if err := plane.Set(0, limit.Egress, limit.Limit{Rate: rate}); err != nil {
		return e, err
	}
	if err := plane.Attach(r.bed.outside.Path); err != nil {
		return e, err
	}
	paced := "and they are adopted for pacing, by the kernel's TCP iterator"
	if err := plane.Adopt(here); err != nil {
		paced = "but not paced: " + err.Error()
	}
	got, err := pair.Transfer(ctx, long)
	if err != nil {
		return e, err
	}
	counted, err := plane.Counters(0, limit.Egress)
	if err != nil {
		return e, err
	}
	// The peer is in the same cgroup: its acknowledgements are charged as well.
	c := charge{quotient: float64(counted.Bytes) / float64(max(got.Wire, 1)), received: got, counted: counted}
	e = of(c, "sockets that are open when a limit is attached")
	e.Why += " " + paced
	return e, nil
}
