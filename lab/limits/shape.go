// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"weir/internal/direction"
	"weir/kernel/bpffs"
	"weir/kernel/cgroup"
	"weir/kernel/instance"
	"weir/kernel/netns"
	"weir/kernel/rtnl"
	"weir/lab/scenario"
	"weir/lab/topology"
	"weir/modules/limit"
	"weir/modules/limit/police"
	"weir/modules/limit/shape"
)

// delayed are the limits by delay of one node. Its programs are pinned where nobody else looks, and
// end with this process; the qdiscs and the ifb end with the node's namespace.
type delayed struct {
	node    string
	ns      *netns.Namespace
	host    shape.Host
	lines   map[string]shape.Shaper // by the limit's name
	pins    *os.File
	cgroup  cgroup.Cgroup // of the sockets that are paced
	sockets *cgroup.Sockets
}

// imposeDelays puts the limits by delay in force.
func (i *Imposed) imposeDelays(ctx context.Context, lab *instance.Instance, built *topology.Topology) error {
	for _, l := range i.limits {
		if l.Mechanism != scenario.Shape || i.delayedAt(l.Host) != nil {
			continue
		}
		parent, err := i.below(lab)
		if err != nil {
			return err
		}
		d := &delayed{node: l.Host, ns: built.Nodes[l.Host], lines: map[string]shape.Shaper{}}
		i.delays = append(i.delays, d)
		if err := d.impose(ctx, lab, parent, i.limits, built); err != nil {
			return fmt.Errorf("limit %s: %w", l.Name, err)
		}
	}
	return nil
}

// delayedAt are those of a node; nil for none.
func (i *Imposed) delayedAt(node string) *delayed {
	for _, d := range i.delays {
		if d.node == node {
			return d
		}
	}
	return nil
}

func (d *delayed) impose(ctx context.Context, lab *instance.Instance, parent cgroup.Cgroup, all []scenario.Limit, built *topology.Topology) (err error) {
	if d.pins, err = bpffs.Private(); err != nil {
		return err
	}
	if d.cgroup, err = cgroup.Create(parent.Path, d.node+"-delay"); err != nil {
		return err
	}
	// Its process ends with Close, after the flows have ended, and not at once when ctx ends.
	if d.sockets, err = d.cgroup.OpenSockets(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	place := bpffs.Place(d.pins)
	d.host = shape.Host{Pins: filepath.Join(place, "delay"), Devices: filepath.Join(place, "devices"),
		Files: filepath.Join(lab.Dir, "delay-"+d.node), CgroupRoot: d.cgroup.Path}
	return d.ns.Do(func() error { return d.apply(all, built) })
}

// apply is to be called in the node's namespace.
func (d *delayed) apply(all []scenario.Limit, built *topology.Topology) error {
	links, err := rtnl.Open(nil)
	if err != nil {
		return err
	}
	defer links.Close()
	var work shape.Work
	for _, l := range all {
		if l.Mechanism != scenario.Shape || l.Host != d.node {
			continue
		}
		there, err := links.Device(deviceOf(l, built))
		if err != nil {
			return err
		}
		line := limit.Shaper(settings(l), l.Direction)
		line.Device, line.Index = there.Name, there.Index
		if err := d.host.Check(line); err != nil {
			return err
		}
		d.lines[l.Name] = line
		work.Shapers = append(work.Shapers, line)
	}
	return d.host.Apply(nil, work)
}

// deviceOf is the device that a limit is at.
func deviceOf(l scenario.Limit, built *topology.Topology) (device string) {
	for _, end := range built.Ends {
		if end.Node == l.Host && (l.Link == "" || end.Link == l.Link) {
			device = end.Device
		}
	}
	return device
}

// Socket makes a socket that is paced.
func (d *delayed) Socket(ns *netns.Namespace, family, kind int) (int, error) {
	return d.sockets.Socket(ns, family, kind)
}

// Directory is the cgroup's.
func (d *delayed) Directory() string { return d.cgroup.Path }

func (d *delayed) read(l scenario.Limit) (s Status, err error) {
	err = d.ns.Do(func() error {
		c, there, err := d.host.Counters(d.lines[l.Name])
		if err == nil && !there {
			err = errors.New("it is not in force any more")
		}
		s = Status{Limit: l, Packets: c.Segments, Bytes: c.Octets, Refused: c.Early + c.Dropped, Marked: c.Marked, Reduced: c.Notified, Queue: c.Delays}
		return err
	})
	return s, err
}

func (d *delayed) close() error {
	var all []error
	if d.sockets != nil {
		all = append(all, d.sockets.Close())
	}
	if d.pins != nil {
		all = append(all, d.pins.Close())
	}
	return errors.Join(all...)
}

// checkDelay says whether this kernel can delay what a node sends, or receives.
func checkDelay(l scenario.Limit) error {
	if err := settings(l).Check(); err != nil {
		return err
	}
	_, err := shape.Available(l.Direction)
	return err
}

// describeDelay says where packets wait.
func describeDelay() string {
	by, err := shape.Available(direction.Egress)
	if err != nil {
		return police.ModeShape
	}
	return fmt.Sprintf("%s (departure times, in %s)", police.ModeShape, by)
}
