// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"fmt"
	"strings"

	"weir/core/module"
	"weir/core/policy"
	"weir/internal/direction"
	"weir/modules/limit/shape"
)

const moduleName = "limit"

// Module adds the keys egress, ingress and loopback to the scopes of a policy. The zero value is
// ready to use.
type Module struct{}

// Name returns "limit".
func (Module) Name() string { return moduleName }

// Grammar returns the keys of a scope.
func (Module) Grammar() policy.Grammar { return grammar() }

// Decode reads a Treatment from JSON.
func (Module) Decode(text []byte) (policy.Treatment, error) {
	return policy.DecodeTreatment[Treatment]("limits", text)
}

// Mechanism names the kernel mechanisms that limit a scope.
func (Module) Mechanism(b module.Bound) string {
	b.Scope = onThisHost(b.Scope)
	t := treatmentOf(b.Scope)
	if b.Shadow {
		return "cgroup_skb, counting only"
	}
	var all []string
	for _, d := range direction.Both {
		switch {
		case t.of(d) == nil:
		case shaped(b.Scope, d):
			all = append(all, shapedBy(d))
		case d == Egress:
			all = append(all, "cgroup_skb, TCP paced by sock_ops")
		case len(all) == 0 || shaped(b.Scope, Egress):
			all = append(all, "cgroup_skb")
		}
	}
	return strings.Join(all, "; ")
}

func shapedBy(d Direction) string {
	by, err := shape.Available(d)
	if err != nil {
		return fmt.Sprintf("%s cannot be shaped here", d)
	}
	if by == shape.HTB {
		return fmt.Sprintf("%s shaped at the device by %s, without fair shares of flows, which need fq", d, by)
	}
	return fmt.Sprintf("%s shaped at the device by %s", d, by)
}

// Capabilities lists the mechanisms for weir doctor.
func (Module) Capabilities() []module.Capability {
	both := []string{"cgroups/cgroup v2", "bpf programs/cgroup_skb", "bpf maps/sk_storage", "bpf maps/lpm_trie"}
	devices := []string{"bpf programs/sched_cls", "qdiscs/clsact", "cgroups/cgroup v2", "cgroups/cgroup_skb egress", "bpf programs/sock_ops", "cgroups/sock_ops", "bpf maps/sk_storage"}
	one := func(name, mechanism string, features ...string) module.Capability {
		return module.Capability{Name: name, Mechanisms: []module.Mechanism{{Name: mechanism, Features: append(append([]string{}, both...), features...)}}}
	}
	adoption := one("police open connections", "an iter/tcp program paces them", "hooks/callbacks of open sockets")
	adoption.Optional, adoption.Without = "they are limited but not paced until they close; %s to pace them", "callbacks of open sockets"
	return []module.Capability{
		{Name: "shape egress", Mechanisms: []module.Mechanism{
			{Name: "departure times in fq", Features: append([]string{"qdiscs/fq"}, devices...)},
			{Name: "an HTB class at the same rate: without fq, all flows share one queue, and only interfaces can be limited",
				Features: append([]string{"qdiscs/htb"}, devices...)},
		}},
		{Name: "shape ingress", Mechanisms: []module.Mechanism{
			{Name: "packets are redirected to an ifb and delayed there", Features: append([]string{"hooks/ifb"}, devices...)},
		}},
		one("police egress", "cgroup_skb programs, TCP paced by sock_ops", "cgroups/cgroup_skb egress", "bpf programs/sock_ops", "cgroups/sock_ops"),
		one("police ingress", "cgroup_skb programs that mark and drop", "cgroups/cgroup_skb ingress"),
		adoption,
		{Name: "limit new cgroups", Mechanisms: []module.Mechanism{
			{Name: "a tp_btf program binds them when they are created", Features: append([]string{"hooks/tp_btf cgroup_mkdir"}, both...)},
			{Name: "the daemon binds them when it sees them", Features: both},
		}},
	}
}
