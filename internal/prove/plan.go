package prove

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"weir/internal/daemon"
	"weir/internal/fault"
	"weir/internal/nearest"
	"weir/internal/prove/station"
	"weir/internal/units"
	"weir/limit"
	"weir/policy"
)

// Options say what to prove and how thoroughly. Duration and Repetitions must be positive.
type Options struct {
	Engine      *daemon.Engine
	Scope       string        // the only one; "" is all
	Duration    time.Duration // of each window
	Repetitions int
	Seed        uint64        // of the order
	Peer        *station.Peer // elsewhere; nil for one of its own
	Congestion  string        // congestion control of TCP; "" chooses
	// Report is told what runs and how long the rest takes; may be nil.
	Report func(what string, left time.Duration)
}

// Test is one scope, direction and path that is to be measured, or why it is not.
type Test struct {
	Scope     policy.Scope
	Direction limit.Direction
	Path      Path
	Promise   units.BitRate
	Skip      Verdict // CannotSay, Shadow or Members; "" is measured
	Reason    string
	Remote    string // the peer's address, in words where it is not chosen yet
	group     string // cgroup that the near station is in, "" for outside of all
	user      uint32 // that it runs as
	tighter   string
}

// From and To say in words who sends to whom.
func (t Test) From() string { return t.end(limit.Egress) }

// To is the other end of From.
func (t Test) To() string { return t.end(limit.Ingress) }

func (t Test) end(inside limit.Direction) string {
	switch {
	case t.Direction != inside:
		return "peer " + t.Remote
	case t.Scope.Applies.Kind == policy.User:
		return "a process of " + t.Scope.Applies.String()
	case t.group != "":
		return "a process in " + t.Scope.Applies.String()
	}
	return "a process of this host"
}

// Sends says in words what a repetition sends.
func (o Options) Sends(t Test) string {
	f := flowOf(t)
	what := fmt.Sprintf("%d connections", f.Connections)
	if f.Protocol == station.UDP {
		what = fmt.Sprintf("%s of %d octets of payload each", f.Rate, station.Payload)
	} else if f.Connections == 1 {
		what = "1 connection"
	}
	return what + ", " + (warmup(t.Promise) + o.Duration).Round(100*time.Millisecond).String()
}

// Takes is about how long the tests take.
func (o Options) Takes(tests []Test) (all time.Duration) {
	scopes := map[string]bool{}
	for _, t := range tests {
		if t.Skip != "" {
			continue
		}
		all += time.Duration(o.Repetitions) * o.took(t)
		if !scopes[t.Scope.Name] {
			scopes[t.Scope.Name] = true
			all += time.Duration(len(checks())) * wayTook(t.Promise)
		}
	}
	return all
}

// Chosen returns the scopes in force that the options ask for.
func (o Options) Chosen() (status daemon.Status, chosen []daemon.ScopeStatus, err error) {
	if status, err = o.Engine.Status(); err != nil {
		return status, nil, err
	}
	if len(status.Scopes) == 0 {
		return status, nil, fault.New(fault.Failed, "put one in force with: weir apply POLICY", "no policy is in force: there is nothing to prove")
	}
	var names []string
	for _, s := range status.Scopes {
		names = append(names, s.Scope.Name)
		if o.Scope == "" || s.Scope.Name == o.Scope {
			chosen = append(chosen, s)
		}
	}
	if len(chosen) == 0 {
		return status, nil, fault.New(fault.Usage, "name one of: "+strings.Join(names[:min(len(names), 8)], ", "),
			"no scope in force is called %q%s", o.Scope, nearest.Hint(o.Scope, names))
	}
	return status, chosen, nil
}

// Plan lists the tests of the scopes in force. ipv6 says why there is no IPv6, or is nil.
func (o Options) Plan(ipv6 error) ([]Test, error) {
	status, chosen, err := o.Chosen()
	if err != nil {
		return nil, err
	}
	all := make([]policy.Scope, 0, len(status.Scopes))
	for _, s := range status.Scopes {
		all = append(all, s.Scope)
	}
	var tests []Test
	for _, s := range chosen {
		for _, direction := range []struct {
			of   limit.Direction
			rate *policy.Rate
		}{{limit.Egress, s.Scope.Egress}, {limit.Ingress, s.Scope.Ingress}} {
			if direction.rate == nil {
				continue
			}
			for _, path := range paths(s.Scope.Applies, o.Peer) {
				if path.IPv6 && (ipv6 != nil && s.Scope.Applies.Kind != policy.Prefix || o.withoutIPv6(s.Scope.Applies)) {
					continue // what this host or device does not have cannot be gone around by
				}
				t := Test{Scope: s.Scope, Direction: direction.of, Path: path, Promise: direction.rate.Rate}
				if err := o.prepare(&t, s, all, ipv6); err != nil {
					return nil, err
				}
				tests = append(tests, t)
			}
		}
	}
	return tests, nil
}

// paths are what a scope's traffic can take: a prefix has one family, and so has a peer elsewhere.
func paths(s policy.Selector, peer *station.Peer) []Path {
	var all []Path
	for _, six := range []bool{false, true} {
		if s.Kind == policy.Prefix && s.Prefix.Addr().Is6() != six || peer != nil && peer.Target.Addr().Unmap().Is6() != six {
			continue
		}
		all = append(all, Path{Protocol: string(station.TCP), IPv6: six}, Path{Protocol: string(station.UDP), IPv6: six})
	}
	return all
}

// prepare finds out how to be in the scope, and what keeps it from being measured.
func (o Options) prepare(t *Test, s daemon.ScopeStatus, all []policy.Scope, ipv6 error) error {
	t.user, t.Remote = freeUser(all), "at an address of 198.18.0.0/16 over a veth pair"
	if t.Path.IPv6 {
		t.Remote = "at an address of 2001:2::/48 over a veth pair"
	}
	if o.Peer != nil {
		t.Remote = o.Peer.Target.String()
	}
	skip := func(v Verdict, format string, args ...any) { t.Skip, t.Reason = v, fmt.Sprintf(format, args...) }
	switch {
	case s.Scope.Applies.Kind == policy.Group:
		skip(Members, "its traffic is its members', and they are measured one by one")
		return nil
	case s.State == "shadow":
		skip(Shadow, "it counts what it would do, and does nothing")
		return nil
	case s.State != "enforced":
		skip(CannotSay, "%s", s.State)
		return nil
	case t.Path.IPv6 && ipv6 != nil:
		skip(CannotSay, "%v", ipv6)
		return nil
	case o.Duration < shortest(t.Promise):
		skip(CannotSay, "%s at %s is fewer than %d packets: give --duration %s", o.Duration, t.Promise, fewestPackets,
			shortest(t.Promise).Round(time.Second)+time.Second)
		return nil
	}
	switch a := s.Scope.Applies; a.Kind {
	case policy.Cgroup, policy.Unit, policy.Host:
		path, missing, err := o.Engine.Cgroup(a)
		if err != nil {
			return err
		}
		if missing != "" {
			skip(CannotSay, "%s", missing)
		}
		t.group = path
	case policy.User:
		t.user = a.User
	case policy.Prefix:
		if o.Peer == nil {
			t.Remote = "at " + hostOf(a.Prefix).String() + ", between two namespaces of its own"
		}
		if o.Peer != nil && !a.Prefix.Contains(o.Peer.Target.Addr().Unmap()) {
			skip(CannotSay, "the peer %s is not in %s; without --peer Weir uses an address of its own in it", o.Peer.Target.Addr(), a.Prefix)
		}
	case policy.Interface:
		why, err := o.barred(t)
		if err != nil {
			return err
		}
		if why != "" {
			skip(CannotSay, "%s", why)
		}
	}
	t.tighter = o.tighter(t, all)
	return nil
}

// freeUser is one that no scope speaks of.
func freeUser(all []policy.Scope) uint32 {
	user := nobody
	for again := true; again; {
		again = false
		for _, s := range all {
			if s.Applies.Kind == policy.User && s.Applies.User == user {
				user, again = user-1, true
			}
		}
	}
	return user
}

// tighter names a scope with a lower rate that the test's traffic belongs to as well.
func (o Options) tighter(t *Test, all []policy.Scope) string {
	for _, other := range all {
		rate := other.Egress
		if t.Direction == limit.Ingress {
			rate = other.Ingress
		}
		if rate == nil || other.Shadow || rate.Rate >= t.Promise || other.Name == t.Scope.Name {
			continue
		}
		around := other.Applies.Kind == policy.Host || other.Name == t.Scope.Parent
		if kind := other.Applies.Kind; (kind == policy.Cgroup || kind == policy.Unit) && t.group != "" {
			path, missing, err := o.Engine.Cgroup(other.Applies)
			around = err == nil && missing == "" && strings.HasPrefix(t.group+"/", path+"/")
		}
		if other.Applies.Kind == policy.Prefix && o.Peer != nil {
			around = other.Applies.Prefix.Contains(o.Peer.Target.Addr().Unmap())
		}
		if around {
			return fmt.Sprintf("%s with %s", other.Name, rate.Rate)
		}
	}
	if t.Scope.Parent != "" {
		return t.Scope.Parent + ", which its siblings may use at the same time"
	}
	return ""
}

// uncovered says why a flow to the peer cannot be outside of every scope; "" where it can.
func uncovered(all []policy.Scope, direction limit.Direction, remote netip.Addr, device string) string {
	for _, s := range all {
		rate := s.Egress
		if direction == limit.Ingress {
			rate = s.Ingress
		}
		if rate == nil || s.Shadow {
			continue
		}
		switch a := s.Applies; {
		case a.Kind == policy.Host,
			a.Kind == policy.Prefix && a.Prefix.Contains(remote.Unmap()),
			a.Kind == policy.Interface && a.Text == device:
			return fmt.Sprintf("all of it belongs to the scope %s", s.Name)
		}
	}
	return ""
}
