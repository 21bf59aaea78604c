// SPDX-License-Identifier: Apache-2.0

// Package limits imposes the bandwidth limits of a scenario on a built testbed by the chosen
// mechanisms, for comparison.
//
// The mechanisms differ in scope: police, classic and shadow limit the sockets of a cgroup; shape
// and qdiscs limit a device. On a host with one link and only limited flows both cover the same
// traffic. All count the bytes of an interface: IP packets and 14 bytes of Ethernet header each,
// with the headers of a super-packet once per segment.
//
// Pitfalls: A limit on a cgroup applies to sockets from [Imposed.Group] only. A missing mechanism
// is a fault of status Testbed, from [Check].
package limits

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"weir/internal/fault"
	"weir/kernel/cgroup"
	"weir/kernel/instance"
	"weir/kernel/probe"
	"weir/lab/scenario"
	"weir/lab/topology"
	"weir/lab/traffic"
	"weir/modules/limit/police"
)

// Imposed is the active limits of a cell. It is not safe for concurrent use; the groups that it
// returns are.
type Imposed struct {
	limits  []scenario.Limit
	groups  []*group
	plane   *police.DataPlane // nil without BPF limits
	queues  map[string]*queue
	shapers []*nodeShapers
	parent  cgroup.Cgroup // parent of all cgroups; created on demand
}

// below returns the cgroup of the lab.
func (i *Imposed) below(lab *instance.Instance) (_ cgroup.Cgroup, err error) {
	if i.parent.Path == "" {
		i.parent, err = lab.Cgroup()
	}
	return i.parent, err
}

// Check returns an error for invalid limits and for mechanisms that this kernel lacks. It changes
// nothing.
func Check(all []scenario.Limit) error {
	kinds := map[string]bool{}
	for _, l := range all {
		switch {
		case l.Mechanism.Cgroup():
			if err := settings(l).Check(); err != nil {
				return fault.New(fault.Usage, "change the limit's rate or thresholds", "limit %s: %w", l.Name, err)
			}
			if err := probe.CgroupV2(); err != nil {
				return fmt.Errorf("limit %s: %w", l.Name, err)
			}
		case l.Mechanism == scenario.Shape:
			if err := checkShaper(l); err != nil {
				return fmt.Errorf("limit %s: %w", l.Name, err)
			}
		case l.Mechanism.Queue():
			kinds["htb"], kinds[leafOf(l.Mechanism)] = true, true
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		if err := probe.Qdisc(kind); err != nil {
			return err
		}
	}
	return nil
}

// Impose activates the limits. After an error the Clear of the instance removes all remains.
func Impose(ctx context.Context, lab *instance.Instance, all []scenario.Limit, built *topology.Topology) (*Imposed, error) {
	i := &Imposed{limits: all, queues: map[string]*queue{}}
	err := i.impose(ctx, lab, built)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("impose limits: %w", err), i.Close())
	}
	return i, nil
}

func (i *Imposed) impose(ctx context.Context, lab *instance.Instance, built *topology.Topology) error {
	for _, l := range i.limits {
		if !l.Mechanism.Queue() {
			continue
		}
		q, err := newQueue(l, built)
		if err != nil {
			return fmt.Errorf("limit %s: %w", l.Name, err)
		}
		i.queues[l.Name] = q
	}
	if err := i.imposeShapers(ctx, lab, built); err != nil {
		return err
	}
	return i.imposeGroups(ctx, lab)
}

// Group returns the cgroup for a flow's sockets at a host; nil without a BPF limit on them.
func (i *Imposed) Group(host, flow string) traffic.Group {
	if i == nil {
		return nil
	}
	for _, g := range i.groups {
		if g.host == host && g.limits[0].Covers(flow) {
			return g
		}
	}
	if d := i.shapersAt(host); d != nil {
		return d
	}
	return nil
}

// Status is the counters of a limit since it was imposed, or between two readings.
type Status struct {
	Limit   scenario.Limit
	Packets uint64 // admitted, on the wire
	Bytes   uint64 // admitted
	Refused uint64 // rejected or dropped
	// Marked, Reduced, Forced and Queue exist for BPF limits only; see police.Counters. For a
	// shaper, Forced is 0 and Queue is the delay of packets.
	Marked, Reduced, Forced uint64
	Queue                   [32]uint64
}

// Read returns the counters of every active limit, in the order of the scenario.
func (i *Imposed) Read() ([]Status, error) {
	if i == nil {
		return nil, nil
	}
	var all []Status
	for _, l := range i.limits {
		status, known, err := i.read(l)
		if err != nil {
			return nil, fmt.Errorf("read limit %s: %w", l.Name, err)
		}
		if known {
			all = append(all, status)
		}
	}
	return all, nil
}

func (i *Imposed) read(l scenario.Limit) (Status, bool, error) {
	if q := i.queues[l.Name]; q != nil {
		status, err := q.read(l)
		return status, true, err
	}
	if d := i.shapersAt(l.Host); d != nil && l.Mechanism == scenario.Shape {
		status, err := d.read(l)
		return status, true, err
	}
	for scope, g := range i.groups {
		for _, own := range g.limits {
			if own.Name == l.Name {
				counted, err := i.plane.Counters(scope, l.Direction)
				return statusOf(l, counted), true, err
			}
		}
	}
	return Status{}, false, nil
}

// Difference returns the counts between two readings of the same limits.
func Difference(after, before []Status) []Status {
	var all []Status
	for n, a := range after {
		if n < len(before) && before[n].Limit.Name == a.Limit.Name {
			a.subtract(before[n])
		}
		all = append(all, a)
	}
	return all
}

func (s *Status) subtract(before Status) {
	s.Packets -= before.Packets
	s.Bytes -= before.Bytes
	s.Refused -= before.Refused
	s.Marked -= before.Marked
	s.Reduced -= before.Reduced
	s.Forced -= before.Forced
	for n := range s.Queue {
		s.Queue[n] -= before.Queue[n]
	}
}

// Close ends the BPF limits and the processes of their cgroups. The Clear of the instance removes
// cgroups and queues.
func (i *Imposed) Close() error {
	if i == nil {
		return nil
	}
	var errs []error
	for _, g := range i.groups {
		errs = append(errs, g.close())
	}
	if i.plane != nil {
		errs = append(errs, i.plane.Close())
	}
	for _, q := range i.queues {
		q.close()
	}
	for _, d := range i.shapers {
		errs = append(errs, d.close())
	}
	return errors.Join(errs...)
}

// Describe names a mechanism and its constant settings.
func Describe(m scenario.Mechanism) string {
	switch {
	case m.Cgroup():
		return string(m) + " (cgroup_skb and sockops)"
	case m == scenario.Shape:
		return describeShaper()
	case m == scenario.HTB:
		return fmt.Sprintf("%s (burst 1 ms of the rate, pfifo of %d packets)", m, waiting)
	case m == scenario.HTBFqCodel:
		return string(m) + " (burst 1 ms of the rate, fq_codel with the kernel's defaults and ECN)"
	}
	return string(m)
}
