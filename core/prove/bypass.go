// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"weir/core/engine"
	"weir/core/module"
	"weir/core/prove/station"
	"weir/internal/direction"
	"weir/kernel/sockdiag"
)

// bypass is one possible bypass of a treatment.
type bypass struct {
	name string
	how  string // description
	try  func(*runner, context.Context, charged) (Bypass, error)
}

// bypasses lists the bypasses tried for every charged scope, in order.
func bypasses() []bypass {
	return []bypass{
		{"sockets opened before", "a process opens a connection outside and then moves into the scope, or its socket gets the scope's mark; the sockets of the processes in the scope are also checked", (*runner).movedProcess},
		{"tunnel", "a VXLAN, GRE or IPIP tunnel between two test namespaces, if the kernel supports it", (*runner).tunnel},
		{"loopback", "a flow over loopback; if loopback is exempt, its rate is measured inside and outside the scope", (*runner).loopback},
		{"super-packets", "the charged bytes of GSO packets are compared with the bytes that a device counts after segmentation", (*runner).superPackets},
		{"another network namespace", "the same process in another network namespace", (*runner).anotherNamespace},
		{"IPv6", "the same flow over IPv6", (*runner).otherFamily},
		{module.ForwardedTraffic, "Weir checks whether the host forwards packets that match the scope but are not charged", (*runner).forwarding},
	}
}

// bypassTook returns the approximate duration of a bypass.
func bypassTook(c module.Check) time.Duration {
	_, long := gently(direction.Egress, c.Promise)
	return quietTime + long + overhead
}

// chargedOf returns the charged scopes with a treatment, per module.
func (r *runner) chargedOf(chosen []engine.ScopeStatus) (all []charged) {
	for _, s := range chosen {
		inside, own := r.in.inside[s.Name]
		if s.State != "enforced" || !own {
			continue
		}
		for _, p := range r.in.modules {
			for _, c := range p.checksOf(s.Scope) {
				if c.Charged.Octets != "" && !c.Queued { // a detour bypasses a queue
					all = append(all, charged{s.Scope, p.name, c, inside})
					break
				}
			}
		}
	}
	return all
}

// bypasses tries every bypass of every charged scope. An error belongs to its bypass.
func (r *runner) bypasses(ctx context.Context, chosen []engine.ScopeStatus) error {
	all := r.chargedOf(chosen)
	for _, s := range all {
		for _, b := range bypasses() {
			if err := ctx.Err(); err != nil {
				return err
			}
			r.report(fmt.Sprintf("%s, bypass: %s", s.scope.Name, b.name))
			found, err := b.try(r, ctx, s)
			if err := r.found(ctx, found, err, s.scope.Name, s.module, b.name); err != nil {
				return err
			}
			r.left = max(0, r.left-bypassTook(s.check))
		}
	}
	if len(all) == 0 {
		return nil
	}
	status, err := r.o.Engine.Status()
	if err != nil {
		return err
	}
	r.result.Bypasses = append(r.result.Bypasses, slices.Concat(blind(all), countedAround(r.o.Engine, status), []Bypass{packetSockets("/proc/net/packet", all)})...)
	return r.trials(ctx)
}

// found records the result of a bypass. It returns an error only if ctx has ended.
func (r *runner) found(ctx context.Context, b Bypass, err error, scope, module, name string) error {
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		b.State, b.Why = Unknown, err.Error()
	}
	b.Scope, b.Module, b.Name = scope, module, name
	r.result.Bypasses = append(r.result.Bypasses, b)
	return nil
}

func notApplicable(why string) (Bypass, error) { return Bypass{State: NotApplicable, Why: why}, nil }

// movedProcess opens a socket outside the scope and then moves its process into the scope.
func (r *runner) movedProcess(ctx context.Context, s charged) (Bypass, error) {
	in := s.inside
	if in.Everything || in.Cgroup == "" && in.User == nil && in.Mark == 0 {
		return notApplicable("the scope goes by " + in.By + ", which no socket keeps from before")
	}
	at, err := r.inside(in, false, false)
	if err != nil {
		return Bypass{}, err
	}
	if in.Cgroup == "" {
		at.late = true
		c, err := r.charge(ctx, s, at, nil)
		if in.Mark != 0 {
			return of(c, "a socket that gets its mark once it is connected"), err
		}
		return of(c, "a socket keeps the user that opened it, even after its process changes its user"), err
	}
	inside := at.group
	at.group = r.bed.outside
	real, err := r.escaped(s.scope.Name)
	if err != nil {
		return Bypass{}, err
	}
	c, err := r.charge(ctx, s, at, func(p *station.Pair) error { return inside.Add(p.PID()) })
	b := of(c, "a socket keeps the cgroup of the process that opened it, even after the process moves")
	if real != "" {
		b.State, b.Why = Escapes, real
	}
	return b, err
}

// escaped names the current sockets of the scope's processes outside the scope; "" without any.
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
		if n := len(s.Escaped); s.Name == scope && n > 0 {
			return fmt.Sprintf("%d sockets of its processes belong to other cgroups, one of %s (process %d): restart the processes inside the scope",
				n, s.Escaped[0].Command, s.Escaped[0].PID), nil
		}
	}
	return "", nil
}

// loopback sends within one namespace.
func (r *runner) loopback(ctx context.Context, s charged) (Bypass, error) {
	switch {
	case s.inside.Device != "":
		return notApplicable("the scope is of one device")
	case s.inside.Namespace != "":
		return notApplicable("no peer of its own is in that namespace")
	}
	at, err := r.inside(s.inside, true, false)
	if err != nil {
		return Bypass{}, err
	}
	if !s.inside.Remote.IsValid() {
		at.peer = r.bed.peerAt(loopbackAddress) // the peer's own address in the prefix is also delivered over lo
	}
	at.ns = r.bed.peer
	c, err := r.charge(ctx, s, at, nil)
	if err != nil {
		return Bypass{}, err
	}
	b := of(c, "traffic that stays on the host, over lo")
	if s.check.Charged.Exempt != "" && b.State == CanEscape {
		return r.exempt(ctx, s, at)
	}
	return b, nil
}

// anotherNamespace sends from a network namespace other than the host's.
func (r *runner) anotherNamespace(ctx context.Context, s charged) (Bypass, error) {
	switch {
	case s.inside.Device != "":
		return notApplicable("a device belongs to one namespace")
	case s.inside.Namespace != "":
		return notApplicable("the scope is of one namespace")
	}
	at, err := r.inside(s.inside, true, false)
	if err != nil {
		return Bypass{}, err
	}
	c, err := r.charge(ctx, s, at, nil)
	return of(c, "cgroup hooks see the sockets of every network namespace"), err
}

// otherFamily sends over IPv6.
func (r *runner) otherFamily(ctx context.Context, s charged) (Bypass, error) {
	in := s.inside
	switch {
	case in.Device == loopback:
		return notApplicable(behindLoopback)
	case in.Device != "" && ipv6Off(in.Device):
		return notApplicable(in.Device + " has no IPv6")
	case in.Remote.IsValid():
		return notApplicable("a prefix is of one family; the other way to the same host needs a scope of its own")
	case !r.bed.ipv6:
		return notApplicable("this host has no IPv6")
	}
	at, err := r.inside(in, false, true)
	if err != nil {
		return Bypass{}, err
	}
	c, err := r.charge(ctx, s, at, nil)
	return of(c, "both families pass the same hooks"), err
}

// trials tries the bypasses with separate data planes of modules.
func (r *runner) trials(ctx context.Context) error {
	for _, one := range r.o.Engine.Modules {
		trier, tries := one.(module.Trier)
		if !tries {
			continue
		}
		for _, t := range trier.Trials() {
			r.report(t.Mechanism)
			b, err := r.trial(ctx, t)
			if err := r.found(ctx, b, err, anyScope, one.Name(), t.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// trial attaches a data plane for a moment to its own cgroup while a connection is open. The peer
// is in the same cgroup, so its acknowledgements are charged too.
func (r *runner) trial(ctx context.Context, t module.Trial) (b Bypass, err error) {
	f, long := gently(direction.Egress, t.Rate)
	f.Congestion = r.o.Congestion
	pair, err := r.connect(ctx, r.outside(false, false), f)
	if err != nil {
		return b, err
	}
	defer pair.Close()
	attached, err := t.Attach(r.bed.outside.Path)
	if err != nil {
		return b, err
	}
	defer func() { err = errors.Join(err, attached.Close()) }()
	got, err := pair.Transfer(ctx, long)
	if err != nil {
		return b, err
	}
	octets, err := attached.Charged()
	if err != nil {
		return b, err
	}
	b = of(quotient(octets, got), t.Mechanism)
	if attached.Note != "" {
		b.Why += " " + attached.Note
	}
	return b, nil
}
