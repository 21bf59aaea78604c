// SPDX-License-Identifier: Apache-2.0

// Package limits puts the bandwidth limits of a scenario in force on a built testbed, by the
// mechanism that each asks for, so that mechanisms can be measured side by side.
//
// What the mechanisms limit differs in one way: the BPF ones that refuse hold the sockets of a
// cgroup to the rate, a queue and limits by delay hold a device. On a host with one link, all of
// whose flows are limited, that is the same traffic. All of them count what an interface counts: IP
// packets and 14 octets of Ethernet header each, a super-packet's headers once per segment.
//
// What will bite you: traffic is under a BPF limit only if its sockets are made by [Imposed.Group].
// A kernel without a mechanism is a fault of status Testbed, from [Check].
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

// Imposed is the limits of a cell in force. It is not safe for concurrent use; the groups that it
// returns are.
type Imposed struct {
	limits []scenario.Limit
	groups []*group
	plane  *police.DataPlane // nil without BPF limits
	queues map[string]*queue
	delays []*delayed
	parent cgroup.Cgroup // of all cgroups; made when one is needed
}

// below is the lab's cgroup.
func (i *Imposed) below(lab *instance.Instance) (_ cgroup.Cgroup, err error) {
	if i.parent.Path == "" {
		i.parent, err = lab.Cgroup()
	}
	return i.parent, err
}

// Check says whether the limits have a meaning and this kernel has their mechanisms. Nothing is
// changed.
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
			if err := checkDelay(l); err != nil {
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

// Impose puts the limits in force. The instance's Clear removes what exists if it fails.
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
	if err := i.imposeDelays(ctx, lab, built); err != nil {
		return err
	}
	return i.imposeGroups(ctx, lab)
}

// Group is the cgroup of a flow's sockets at a host; nil where no BPF limit is on them.
func (i *Imposed) Group(host, flow string) traffic.Group {
	if i == nil {
		return nil
	}
	for _, g := range i.groups {
		if g.host == host && g.limits[0].Covers(flow) {
			return g
		}
	}
	if d := i.delayedAt(host); d != nil {
		return d
	}
	return nil
}

// Status is what a limit has counted since it was imposed, or in the time between two readings.
type Status struct {
	Limit   scenario.Limit
	Packets uint64 // let pass, as they go on the wire
	Bytes   uint64 // let pass, as the limit counts them
	Refused uint64 // or dropped by a queue
	// Marked, Reduced, Forced and Queue are known of BPF limits alone: see police.Counters. A limit
	// by delay forces nobody, and its queue is what packets wait.
	Marked, Reduced, Forced uint64
	Queue                   [32]uint64
}

// Read returns the counters of every limit that is in force, in the scenario's order.
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
	if d := i.delayedAt(l.Host); d != nil && l.Mechanism == scenario.Shape {
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

// Difference is what was counted between two readings of the same limits.
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

// Close ends the BPF limits and the processes of their cgroups. The cgroups and the queues go with
// the instance's Clear.
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
	for _, d := range i.delays {
		errs = append(errs, d.close())
	}
	return errors.Join(errs...)
}

// Describe names a mechanism with the settings that it has everywhere.
func Describe(m scenario.Mechanism) string {
	switch {
	case m.Cgroup():
		return string(m) + " (cgroup_skb and sockops)"
	case m == scenario.Shape:
		return describeDelay()
	case m == scenario.HTB:
		return fmt.Sprintf("%s (burst 1 ms of the rate, pfifo of %d packets)", m, waiting)
	case m == scenario.HTBFqCodel:
		return string(m) + " (burst 1 ms of the rate, fq_codel with the kernel's defaults and ECN)"
	}
	return string(m)
}
