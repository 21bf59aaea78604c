// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"context"
	"fmt"
	"slices"

	"weir/kernel/cgroup"
	"weir/kernel/instance"
	"weir/kernel/netns"
	"weir/lab/scenario"
	"weir/modules/limit/police"
)

// group is a cgroup for the flows of one limit, or of one limit per direction. It is a scope of the
// data plane.
type group struct {
	host    string
	limits  []scenario.Limit // at least one, with the same flows
	cgroup  cgroup.Cgroup
	sockets *cgroup.Sockets
}

// Socket opens a socket under the limits.
func (g *group) Socket(ns *netns.Namespace, family, kind int) (int, error) {
	return g.sockets.Socket(ns, family, kind)
}

// Directory returns the path of the cgroup.
func (g *group) Directory() string { return g.cgroup.Path }

func (g *group) close() error {
	if g.sockets == nil {
		return nil
	}
	return g.sockets.Close()
}

// grouped joins the limits of both directions on the same flows of a host.
func grouped(all []scenario.Limit) (groups []*group) {
	for _, l := range all {
		if !l.Mechanism.Cgroup() {
			continue
		}
		at := slices.IndexFunc(groups, func(g *group) bool { return g.host == l.Host && slices.Equal(g.limits[0].Flows, l.Flows) })
		if at < 0 {
			at = len(groups)
			groups = append(groups, &group{host: l.Host})
		}
		groups[at].limits = append(groups[at].limits, l)
	}
	return groups
}

// imposeGroups creates a cgroup per group below the lab's cgroup, and attaches the data plane to
// the latter.
func (i *Imposed) imposeGroups(ctx context.Context, lab *instance.Instance) error {
	i.groups = grouped(i.limits)
	if len(i.groups) == 0 {
		return nil
	}
	parent, err := i.below(lab)
	if err != nil {
		return err
	}
	if i.plane, err = police.Load(len(i.groups)); err != nil {
		return err
	}
	for scope, g := range i.groups {
		if err := i.imposeGroup(ctx, g, scope, parent); err != nil {
			return fmt.Errorf("limit %s: %w", g.limits[0].Name, err)
		}
	}
	return i.plane.Attach(parent.Path)
}

func (i *Imposed) imposeGroup(ctx context.Context, g *group, scope int, parent cgroup.Cgroup) (err error) {
	if g.cgroup, err = cgroup.Create(parent.Path, fmt.Sprintf("%s-%d", g.host, scope)); err != nil {
		return err
	}
	// The helper process must outlive ctx until Close, since flows end after ctx.
	if g.sockets, err = g.cgroup.OpenSockets(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	id, err := g.cgroup.ID()
	if err != nil {
		return err
	}
	if err := i.plane.AssignCgroup(id, scope); err != nil {
		return err
	}
	for _, l := range g.limits {
		if err := i.plane.Set(scope, l.Direction, settings(l)); err != nil {
			return err
		}
	}
	return nil
}

// settings returns the settings of the data plane.
func settings(l scenario.Limit) police.Limit {
	return police.Limit{Rate: l.Rate, Burst: l.Burst, Mark: l.Mark, Drop: l.Drop,
		Mode: modeOf(l.Mechanism), Shadow: l.Mechanism == scenario.Shadow, Classic: l.Mechanism == scenario.Classic}
}

func modeOf(m scenario.Mechanism) string {
	if m == scenario.Shape {
		return police.ModeShape
	}
	return police.ModePolice
}

func statusOf(l scenario.Limit, c police.Counters) Status {
	return Status{Limit: l, Packets: c.Segments, Bytes: c.Bytes, Refused: c.Dropped, Marked: c.Marked, Reduced: c.Reduced,
		Forced: c.Forced, Queue: c.Queue}
}
