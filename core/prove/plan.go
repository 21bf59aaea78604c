// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"weir/core/engine"
	"weir/core/module"
	"weir/core/policy"
	"weir/core/prove/station"
	"weir/core/selector"
	"weir/internal/direction"
	"weir/internal/fault"
	"weir/internal/nearest"
	"weir/internal/units"
)

// Options selects the promises to prove and the effort. Duration and Repetitions must be positive.
type Options struct {
	Engine   *engine.Engine
	Scope    string        // the only scope; "" for all
	Duration time.Duration // of each measurement
	// Lengthen is the maximum duration of a measurement that needs more than Duration; 0 lengthens
	// none.
	Lengthen    time.Duration
	Repetitions int
	Seed        uint64        // of the order of tests
	Peer        *station.Peer // remote; nil for an own peer
	Congestion  string        // congestion control of TCP; "" chooses
	// Report is called with the current step and the remaining time; may be nil.
	Report func(what string, left time.Duration)
}

// Test is one check on one path, or the reason for skipping it.
type Test struct {
	Scope  policy.Scope
	Module string
	Check  module.Check
	Path   module.Path
	Skip   module.Verdict // CannotSay, Shadow or Members; "" if the test is measured
	Reason string
	Remote string // the peer's address, or a description before it is chosen
	inside selector.Inside
	around []policy.Scope
}

// From and To describe sender and receiver.
func (t Test) From() string { return t.end(direction.Egress) }

// To is the other end of From.
func (t Test) To() string { return t.end(direction.Ingress) }

func (t Test) end(inside direction.Direction) string {
	switch {
	case t.Check.Direction != inside:
		return "peer " + t.Remote
	case t.inside.User != nil, t.inside.Mark != 0:
		return "a process of " + t.Scope.Selector.String()
	case t.inside.Cgroup != "", t.inside.Namespace != "":
		return "a process in " + t.Scope.Selector.String()
	}
	return "a process of this host"
}

// Sends describes the flow of a repetition.
func (o Options) Sends(t Test) string {
	f := flowOf(t)
	what := fmt.Sprintf("%d connections", f.Connections)
	switch f.Protocol {
	case station.QUIC:
		what = "datagrams at full speed under QUIC's congestion control"
	case station.Short:
		what = fmt.Sprintf("transfers of %s, each on its own connection", units.ByteSize(f.Size))
	case station.UDP:
		what = fmt.Sprintf("%s in datagrams of %d bytes of payload", f.Rate, station.Payload)
	default:
		if f.Connections == 1 {
			what = "1 connection"
		}
	}
	if t.probing() > 0 {
		what += fmt.Sprintf(" beside small packets of %s", t.probing())
	}
	return what + ", " + (t.Check.Warmup + o.window(t)).Round(100*time.Millisecond).String()
}

// Takes returns the approximate duration of the tests.
func (o Options) Takes(tests []Test) (all time.Duration) {
	charged := map[[2]string]bool{}
	for _, t := range tests {
		if t.Skip != "" {
			continue
		}
		all += time.Duration(o.repetitions(t)) * o.took(t)
		if of := [2]string{t.Module, t.Scope.Name}; t.Check.Charged.Octets != "" && !t.Check.Queued && !charged[of] {
			charged[of] = true
			all += time.Duration(len(bypasses())) * bypassTook(t.Check)
		}
	}
	return all
}

// fewRepetitions is the maximum number of repetitions of short flows.
const fewRepetitions = 2

// repetitions returns the number of repetitions of a test.
func (o Options) repetitions(t Test) int {
	if t.Path.Lasting() {
		return o.Repetitions
	}
	return min(o.Repetitions, fewRepetitions)
}

// took returns the duration of a repetition.
func (o Options) took(t Test) time.Duration {
	return quietOf(t.probing()) + t.Check.Warmup + o.window(t) + overhead
}

// window returns the measured time of a test.
func (o Options) window(t Test) time.Duration {
	if t.Check.Shortest <= o.Lengthen {
		return max(o.Duration, t.Check.Shortest)
	}
	return o.Duration
}

// Chosen returns the selected active scopes.
func (o Options) Chosen() (status engine.Status, chosen []engine.ScopeStatus, err error) {
	if status, err = o.Engine.Status(); err != nil {
		return status, nil, err
	}
	if len(status.Scopes) == 0 {
		if asked, err := o.inspects(); err != nil || asked {
			return status, nil, err
		}
		return status, nil, fault.New(fault.Failed, "apply one: weir apply POLICY", "no policy with scopes is active: there is nothing to prove")
	}
	var names []string
	for _, s := range status.Scopes {
		names = append(names, s.Name)
		if o.Scope == "" || s.Name == o.Scope {
			chosen = append(chosen, s)
		}
	}
	if len(chosen) == 0 {
		return status, nil, fault.New(fault.Usage, "name one of: "+strings.Join(names[:min(len(names), 8)], ", "),
			"no active scope is called %q%s", o.Scope, nearest.Hint(o.Scope, names))
	}
	return status, chosen, nil
}

// Plan returns the tests of the active scopes. ipv6 is the reason for missing IPv6, or nil.
func (o Options) Plan(ipv6 error) ([]Test, error) {
	status, chosen, err := o.Chosen()
	if err != nil {
		return nil, err
	}
	in, err := look(o.Engine, status)
	if err != nil {
		return nil, err
	}
	return o.plan(in, chosen, ipv6)
}

func (o Options) plan(in *scopes, chosen []engine.ScopeStatus, ipv6 error) (tests []Test, err error) {
	for _, s := range chosen {
		inside := in.inside[s.Name]
		for _, r := range in.modules {
			for _, check := range r.checksOf(s.Scope) {
				for _, path := range o.paths(inside) {
					if check.Paths == nil && !path.Lasting() || check.Paths != nil && !check.Paths(path) || path.IPv6 && (ipv6 != nil && !inside.Remote.IsValid() || o.withoutIPv6(inside)) {
						continue // a missing feature cannot be a bypass
					}
					t := Test{Scope: s.Scope, Module: r.name, Check: check, Path: path, inside: inside}
					if err := o.prepare(&t, s.State, in, ipv6); err != nil {
						return nil, err
					}
					tests = append(tests, t)
				}
			}
		}
	}
	return tests, nil
}

// paths returns the possible paths of the traffic of a scope: a prefix and a remote peer have one
// family.
func (o Options) paths(inside selector.Inside) (all []module.Path) {
	for _, six := range []bool{false, true} {
		if inside.Remote.IsValid() && inside.Remote.Addr().Is6() != six || o.Peer != nil && o.Peer.Target.Addr().Unmap().Is6() != six {
			continue
		}
		all = append(all, module.Path{Protocol: module.TCP, IPv6: six}, module.Path{Protocol: module.UDP, IPv6: six})
	}
	if len(all) > 0 {
		first := all[0].IPv6
		all = append(all, module.Path{Protocol: module.QUIC, IPv6: first}, module.Path{Protocol: module.Short, IPv6: first})
	}
	return all
}

// prepare determines why a test cannot be measured, and explanations of its result.
func (o Options) prepare(t *Test, state string, in *scopes, ipv6 error) (err error) {
	peer := netip.Addr{}
	if o.Peer != nil {
		peer = o.Peer.Target.Addr()
	}
	t.Remote, t.around = o.remote(t), in.around(t.Scope, t.Module, peer)
	cannot := func(format string, args ...any) { t.Skip, t.Reason = CannotSay, fmt.Sprintf(format, args...) }
	_, own := selector.Of(t.Scope.Selector)
	switch missing := in.absent[t.Scope.Name]; {
	case !own:
		t.Skip, t.Reason = Members, "its traffic is its members', and they are measured one by one"
	case state == "shadow":
		t.Skip, t.Reason = Shadow, "it only counts"
	case state != "enforced":
		cannot("%s", state)
	case t.Path.IPv6 && ipv6 != nil:
		cannot("%v", ipv6)
	case o.window(*t) < t.Check.Shortest:
		cannot("%s is too short to test %s: give --duration %s", o.Duration, t.Check.Promised(), t.Check.Shortest.Round(time.Second)+time.Second)
	case missing != "":
		cannot("%s", missing)
	case peer.IsValid() && t.inside.Remote.IsValid() && !t.inside.Remote.Contains(peer.Unmap()):
		cannot("the peer %s is not in %s; without --peer Weir uses an address of its own in it", peer, t.inside.Remote)
	case t.inside.Device != "" && t.Check.Queued && o.Peer == nil:
		cannot("the promise is about the queue of %s, which only packets to its link pass: name a peer behind it with --peer", t.inside.Device)
	case t.Check.Queued && o.Peer == nil && t.inside.Namespace != "" && !same(t.inside.Namespace, ownNamespace):
		cannot("the promise is about the devices of %s, which only packets through them pass: name a peer behind them with --peer", t.inside.Namespace)
	case t.inside.Device != "":
		why, err := o.barred(t)
		if err != nil {
			return err
		}
		if why != "" {
			cannot("%s", why)
		}
	}
	return nil
}

// remote describes the place of the peer.
func (o Options) remote(t *Test) string {
	switch {
	case o.Peer != nil:
		return o.Peer.Target.String()
	case t.inside.Remote.IsValid():
		return "at " + hostOf(t.inside.Remote).String() + ", between two namespaces of its own"
	case t.inside.Device != "":
		return "behind " + t.inside.Device + ", by a detour to a namespace"
	case t.Path.IPv6:
		return "at an address of 2001:2::/48 over a veth pair"
	}
	return "at an address of 198.18.0.0/16 over a veth pair"
}
