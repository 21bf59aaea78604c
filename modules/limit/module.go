// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"fmt"
	"strings"

	"weir/core/match"
	"weir/core/module"
	"weir/core/policy"
	"weir/modules/limit/shape"
)

const moduleName = "limit"

// Room puts limits under the spine: the keys egress, ingress and loopback of a policy's scopes. The
// zero value is ready to use.
type Module struct{}

// Name is "limit".
func (Module) Name() string { return moduleName }

// Grammar is the keys of a scope.
func (Module) Grammar() policy.Grammar { return grammar() }

// Decode reads a Treatment from JSON.
func (Module) Decode(text []byte) (policy.Treatment, error) {
	return policy.DecodeTreatment[Treatment]("limits", text)
}

// Mechanism says by what a scope is held to its limits.
func (Module) Mechanism(b module.Bound) string {
	t := treatmentOf(b.Scope)
	if b.Shadow {
		return "cgroup_skb, only counting"
	}
	var all []string
	for _, of := range Directions {
		switch {
		case t.of(of) == nil:
		case delays(b.Scope, of):
			all = append(all, delayedBy(of))
		case of == Egress:
			all = append(all, "cgroup_skb, TCP paced by sock_ops")
		case len(all) == 0 || delays(b.Scope, Egress):
			all = append(all, "cgroup_skb")
		}
	}
	return strings.Join(all, "; ")
}

func delayedBy(of Direction) string {
	by, err := shape.Available(of)
	if err != nil {
		return fmt.Sprintf("%s cannot be delayed here", of)
	}
	if by == shape.HTB {
		return fmt.Sprintf("%s delayed at the device, in %s, without fair parts of flows, which need fq", of, by)
	}
	return fmt.Sprintf("%s delayed at the device, in %s", of, by)
}

// Capabilities are what weir doctor tells of limits.
func (Module) Capabilities() []module.Capability {
	both := []string{"cgroups/cgroup v2", "bpf programs/cgroup_skb", "bpf maps/sk_storage", "bpf maps/lpm_trie"}
	devices := []string{"bpf programs/sched_cls", "qdiscs/clsact", "cgroups/cgroup v2", "cgroups/cgroup_skb egress", "bpf programs/sock_ops", "cgroups/sock_ops", "bpf maps/sk_storage"}
	one := func(name, mechanism string, features ...string) module.Capability {
		return module.Capability{Name: name, Mechanisms: []module.Mechanism{{Name: mechanism, Features: append(append([]string{}, both...), features...)}}}
	}
	adoption := one("limit open connections", "an iter/tcp program has them paced", "hooks/callbacks of open sockets")
	adoption.Optional, adoption.Without = "they are limited, and only not paced, until they close; %s to pace them", "callbacks of open sockets"
	return []module.Capability{
		one("limit egress", "cgroup_skb programs that pace TCP through sock_ops", "cgroups/cgroup_skb egress", "bpf programs/sock_ops", "cgroups/sock_ops"),
		one("limit ingress", "cgroup_skb programs that mark and drop", "cgroups/cgroup_skb ingress"),
		adoption,
		{Name: "shaping", Mechanisms: []module.Mechanism{
			{Name: "departure times in fq", Features: append([]string{"qdiscs/fq"}, devices...)},
			{Name: "an HTB class at the same rate; each flow's packets wait behind all others, and only interfaces can be limited: both need fq",
				Features: append([]string{"qdiscs/htb"}, devices...)},
		}},
		{Name: "ingress shaping", Mechanisms: []module.Mechanism{
			{Name: "at an ifb, to which it is redirected", Features: append([]string{"hooks/ifb"}, devices...)},
		}},
		{Name: "limit new cgroups", Mechanisms: []module.Mechanism{
			{Name: "a tp_btf program binds them as they are made", Features: append([]string{"hooks/tp_btf cgroup_mkdir"}, both...)},
			{Name: "the daemon binds them when it sees them", Features: both},
		}},
	}
}

// assignments are what scopes stand for, as the data plane takes it; those that wait, and groups,
// stand for nothing.
type assignments struct{ match.Assignments }

func (a *assignments) add(b module.Bound) {
	if b.Binding.Kind == "" || b.Binding.Missing != "" {
		return
	}
	if a.Assignments == nil {
		a.Assignments = match.Assignments{}
	}
	a.Assignments[b.Binding.Key] = b.Index
}
