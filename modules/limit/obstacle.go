// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"errors"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weir/core/match"
	"weir/core/module"
	"weir/core/policy"
	"weir/core/selector"
	"weir/internal/fault"
	"weir/modules/limit/shape"
)

// obstacle is the reason why a direction without the key mode is policed. The zero value is none.
type obstacle struct {
	why    string // a clause: "the kernel has no fq"
	remedy string // "" if there is none
	silent bool   // plan and apply do not report it: another warning does, or nothing is limited
}

func obstacleOf(err error) obstacle {
	if err == nil {
		return obstacle{}
	}
	return obstacle{why: err.Error(), remedy: fault.Advice(err)}
}

// obstacleOf returns an error as an obstacle. A lack of descriptors or memory is none: the choice
// fails, and the active mode stays.
func (c *modeSelection) obstacleOf(err error) obstacle {
	for _, lack := range []error{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOBUFS} {
		if errors.Is(err, lack) {
			c.failed = errors.Join(c.failed, err)
		}
	}
	if errors.Is(err, shape.ErrUsurped) { // it may do so again
		remember(c.host, err)
	}
	return obstacleOf(err)
}

// obstacle returns the obstacle to shaping one direction of a scope.
func (c *modeSelection) obstacle(b module.Bound, d Direction) obstacle {
	kind := b.Selector.Kind
	atDevice := kind == kindInterface || kind == kindNetns || kind == policy.Group
	switch {
	case selector.IsLoopback(b.Selector) || treatmentOf(b.Scope).Loopback:
		return obstacle{why: "packets over lo cannot be shaped", silent: true}
	case d == Ingress && !atDevice:
		return obstacle{why: "received packets have no socket yet where they are shaped", remedy: "limit an interface or a network namespace", silent: true}
	case treatmentOf(b.Scope).of(d).Min > 0:
		return obstacle{why: "a shaper guarantees no minimum", remedy: "write a weight in place of min to shape it"}
	case kind == kindInterface && c.isBelow(b, kindInterface), kind == kindNetns && !c.onlyGroupsAbove(b), c.isBelow(b, kindNetns):
		return obstacle{why: "its packets and those of a scope above it are shaped at different devices", remedy: "use a group as the parent of both to shape them"}
	}
	mechanism, err := shape.Available(d)
	if err != nil || mechanism != shape.Fq {
		return c.obstacleOf(missing(d, err))
	}
	switch kind {
	case policy.Group:
		return obstacle{}
	case kindInterface:
		return c.atInterface(b, d)
	case kindNetns:
		return c.atNamespace(b, d)
	case "container":
		return obstacle{why: "packets of a container with a network namespace of its own match no cgroup at a device", remedy: "limit its network namespace (netns) to shape it"}
	}
	if o := c.unseen(kind); o.why != "" {
		return o
	}
	if b.Binding.Kind != "" {
		if err := b.Binding.Kind.Needs(ebpf.SchedCLS); err != nil {
			return c.obstacleOf(err)
		}
	}
	if c.everyone == nil {
		o := c.obstacleOf(c.checkScopes(c.hosts))
		c.everyone = &o
	}
	return *c.everyone
}

// unseen returns the obstacle for a scope of packets that an egress device of this network
// namespace would not show as such, or show twice.
func (c *modeSelection) unseen(kind string) obstacle {
	if !everywhere(kind) {
		return obstacle{}
	}
	on := c.surrounding()
	switch {
	case on.forwards && kind != "prefix":
		return obstacle{why: "this host forwards, and packets of containers with a network namespace of their own match no " + kind + " at a device",
			remedy: "write mode: shape if there are no such containers"}
	case on.tunnel != "" && kind == "prefix":
		return obstacle{why: "packets through the tunnel " + on.tunnel + " have other addresses at a device", remedy: "write mode: shape if the prefix is not behind a tunnel"}
	case on.stacked != "":
		return obstacle{why: "packets may pass two devices, " + on.stacked + " and the one below it, and would be charged at both", remedy: "limit an interface to shape it"}
	}
	if at, err := on.elsewhere(); err != nil {
		return c.obstacleOf(err)
	} else if at != "" {
		return obstacle{why: "packets that leave by " + at + " pass no device of this network namespace", remedy: "limit an interface or a network namespace to shape it"}
	}
	return obstacle{}
}

// missing returns an error that names the missing qdisc, or why it could not be looked for.
func missing(d Direction, err error) error {
	if err == nil || d == Egress && errors.Is(err, unix.ENOENT) {
		err = fault.New(fault.Testbed, "use a kernel with CONFIG_NET_SCH_FQ to shape it", "the kernel has no fq")
	}
	return err
}

// hosts reports whether another module owns the qdisc tree of a device, and whether that tree keeps
// departure times.
func (c *modeSelection) hosts(dev string) (owned, keeps bool) {
	keeps, owned = c.state.Claimed[dev]
	return owned, keeps
}

func (c *modeSelection) atInterface(b module.Bound, d Direction) obstacle {
	dev := b.Selector.Text
	if owned, _ := c.hosts(dev); owned && d == Egress {
		return obstacle{why: "the queues of " + dev + " have another owner in this policy", remedy: "write the lower rate of both as the rate of the link"}
	}
	return c.obstacleOf(c.host.CheckDevice(dev, d))
}

// atNamespace is for a network namespace. Without a veth pair to this one it is not shaped at all.
func (c *modeSelection) atNamespace(b module.Bound, d Direction) obstacle {
	path := selector.NamespacePath(b.Selector.Text)
	if err := c.host.CheckNamespace(path, d, c.hosts); err != nil {
		return c.obstacleOf(err)
	}
	unled := c.host.Unled(shape.Work{Shapers: []shape.Shaper{{Direction: d, Namespace: path}}})
	if len(unled) > 0 && match.Netns.Needs(ebpf.CGroupSKB) == nil {
		return obstacle{why: "no veth pair connects it to this network namespace"}
	}
	return obstacle{}
}

// isBelow reports whether a scope has a scope of the given kind above it.
func (c *modeSelection) isBelow(b module.Bound, kind string) bool {
	for above, there := c.named[b.Parent]; there; above, there = c.named[above.Parent] {
		if above.Selector.Kind == kind {
			return true
		}
	}
	return false
}

// onlyGroupsAbove reports whether all scopes above a scope are groups.
func (c *modeSelection) onlyGroupsAbove(b module.Bound) bool {
	for above, there := c.named[b.Parent]; there; above, there = c.named[above.Parent] {
		if above.Selector.Kind != policy.Group {
			return false
		}
	}
	return true
}
