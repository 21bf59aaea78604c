// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"fmt"
	"net/netip"
	"os"
	"strings"

	"weir/core/engine"
	"weir/core/module"
	"weir/core/policy"
	"weir/core/selector"
	"weir/internal/direction"
)

// scopes holds the active scopes and the requirements for processes to match them.
type scopes struct {
	all     []policy.Scope
	inside  map[string]selector.Inside // by name; groups have none
	absent  map[string]string          // reasons for missing objects, by name
	modules []prover
}

// prover is a module with checks.
type prover struct {
	name   string
	checks func(policy.Scope) []module.Check
}

// checksOf returns the checks of a scope of the module.
func (p prover) checksOf(s policy.Scope) []module.Check {
	if _, treats := s.Treatments[p.name]; !treats {
		return nil
	}
	return p.checks(s)
}

// look resolves the active scopes.
func look(e *engine.Engine, status engine.Status) (*scopes, error) {
	in := &scopes{inside: map[string]selector.Inside{}, absent: map[string]string{}}
	for _, r := range e.Modules {
		if p, proves := r.(module.Prover); proves {
			in.modules = append(in.modules, prover{r.Name(), p.Checks})
		}
	}
	host := e.Lookup()
	for _, s := range status.Scopes {
		in.all = append(in.all, s.Scope)
		if _, own := selector.Of(s.Selector); !own {
			continue
		}
		inside, missing, err := host.Inside(s.Selector)
		if err != nil {
			return nil, fmt.Errorf("scope %s: %w", s.Name, err)
		}
		in.inside[s.Name] = inside
		if missing != "" {
			in.absent[s.Name] = missing
		}
	}
	return in, nil
}

// freeUser returns a user without a scope.
func (in *scopes) freeUser() uint32 {
	taken := map[uint32]bool{}
	for _, inside := range in.inside {
		if inside.User != nil {
			taken[*inside.User] = true
		}
	}
	user := nobody
	for taken[user] {
		user--
	}
	return user
}

// around returns other scopes of the module that match the traffic from inside a scope to a peer.
func (in *scopes) around(of policy.Scope, module string, peer netip.Addr) (all []policy.Scope) {
	above := map[string]bool{}
	parents := map[string]string{}
	for _, s := range in.all {
		parents[s.Name] = s.Parent
	}
	for at := of.Parent; at != "" && !above[at]; at = parents[at] {
		above[at] = true
	}
	own := in.inside[of.Name]
	if own.Namespace == "" && (peer.IsValid() || !own.Remote.IsValid()) {
		own.Namespace = ownNamespace
	}
	for _, s := range in.all {
		if _, treats := s.Treatments[module]; !treats || s.Shadow || s.Name == of.Name {
			continue
		}
		inside, known := in.inside[s.Name]
		if above[s.Name] || known && in.absent[s.Name] == "" && holds(inside, own, peer) {
			all = append(all, s)
		}
	}
	return all
}

// holds reports whether an outer scope visibly includes all traffic of an inner scope to a peer.
func holds(outer, inner selector.Inside, peer netip.Addr) bool {
	switch {
	case outer.Everything:
		return true
	case outer.Cgroup != "" && inner.Cgroup != "":
		return strings.HasPrefix(inner.Cgroup+"/", outer.Cgroup+"/")
	case outer.Remote.IsValid() && peer.IsValid():
		return outer.Remote.Contains(peer.Unmap())
	case outer.Namespace != "":
		return same(outer.Namespace, inner.Namespace)
	}
	return false
}

// uncovered returns the reason why a flow to the peer cannot be outside every scope that limits its
// rate; "" if it can. Its network namespace and its device may be "" if no scope can match them.
func (in *scopes) uncovered(d direction.Direction, remote netip.Addr, device, namespace string) string {
	for _, s := range in.all {
		inside, known := in.inside[s.Name]
		if !known || s.Shadow || !in.restrains(s, d) {
			continue
		}
		if inside.Everything || inside.Remote.IsValid() && inside.Remote.Contains(remote.Unmap()) || inside.Device != "" && inside.Device == device ||
			inside.Namespace != "" && same(inside.Namespace, namespace) {
			return fmt.Sprintf("all of it belongs to the scope %s", s.Name)
		}
	}
	return ""
}

// restrains reports whether a module promises the scope a rate that depends on the path.
func (in *scopes) restrains(s policy.Scope, d direction.Direction) bool {
	for _, r := range in.modules {
		for _, c := range r.checksOf(s) {
			if c.Direction == d && c.Needs > 0 {
				return true
			}
		}
	}
	return false
}

// ownNamespace is the path of the network namespace that this thread is in.
const ownNamespace = "/proc/thread-self/ns/net"

// same reports whether two paths are the same network namespace; "" matches none.
func same(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}
