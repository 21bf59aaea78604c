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

// nodeShapers is the shapers of one node. Its programs are pinned in a private bpf file system and
// end with the process; the qdiscs and the ifb end with the namespace of the node.
type nodeShapers struct {
	node    string
	ns      *netns.Namespace
	host    shape.Host
	byLimit map[string]shape.Shaper // by name of the limit
	pins    *os.File
	cgroup  cgroup.Cgroup // of the paced sockets
	sockets *cgroup.Sockets
}

// imposeShapers activates the limits with mechanism shape.
func (i *Imposed) imposeShapers(ctx context.Context, lab *instance.Instance, built *topology.Topology) error {
	for _, l := range i.limits {
		if l.Mechanism != scenario.Shape || i.shapersAt(l.Host) != nil {
			continue
		}
		parent, err := i.below(lab)
		if err != nil {
			return err
		}
		d := &nodeShapers{node: l.Host, ns: built.Nodes[l.Host], byLimit: map[string]shape.Shaper{}}
		i.shapers = append(i.shapers, d)
		if err := d.impose(ctx, lab, parent, i.limits, built); err != nil {
			return fmt.Errorf("limit %s: %w", l.Name, err)
		}
	}
	return nil
}

// shapersAt returns the shapers of a node; nil for none.
func (i *Imposed) shapersAt(node string) *nodeShapers {
	for _, d := range i.shapers {
		if d.node == node {
			return d
		}
	}
	return nil
}

func (d *nodeShapers) impose(ctx context.Context, lab *instance.Instance, parent cgroup.Cgroup, all []scenario.Limit, built *topology.Topology) (err error) {
	if d.pins, err = bpffs.Private(); err != nil {
		return err
	}
	if d.cgroup, err = cgroup.Create(parent.Path, d.node+"-delay"); err != nil {
		return err
	}
	// The helper process must outlive ctx until Close, since flows end after ctx.
	if d.sockets, err = d.cgroup.OpenSockets(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	place := bpffs.Place(d.pins)
	d.host = shape.Host{Pins: filepath.Join(place, "delay"), Devices: filepath.Join(place, "devices"),
		Files: filepath.Join(lab.Dir, "delay-"+d.node), CgroupRoot: d.cgroup.Path}
	return d.ns.Do(func() error { return d.apply(all, built) })
}

// apply must be called in the namespace of the node.
func (d *nodeShapers) apply(all []scenario.Limit, built *topology.Topology) error {
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
		shaper := limit.Shaper(settings(l), l.Direction)
		shaper.Device, shaper.Index = there.Name, there.Index
		if err := d.host.Check(shaper); err != nil {
			return err
		}
		d.byLimit[l.Name] = shaper
		work.Shapers = append(work.Shapers, shaper)
	}
	return d.host.Apply(nil, work)
}

// deviceOf returns the device of a limit.
func deviceOf(l scenario.Limit, built *topology.Topology) (device string) {
	for _, end := range built.Ends {
		if end.Node == l.Host && (l.Link == "" || end.Link == l.Link) {
			device = end.Device
		}
	}
	return device
}

// Socket opens a paced socket.
func (d *nodeShapers) Socket(ns *netns.Namespace, family, kind int) (int, error) {
	return d.sockets.Socket(ns, family, kind)
}

// Directory returns the path of the cgroup.
func (d *nodeShapers) Directory() string { return d.cgroup.Path }

func (d *nodeShapers) read(l scenario.Limit) (s Status, err error) {
	err = d.ns.Do(func() error {
		c, there, err := d.host.Counters(d.byLimit[l.Name])
		if err == nil && !there {
			err = errors.New("the shaper is gone")
		}
		s = Status{Limit: l, Packets: c.Segments, Bytes: c.Octets, Refused: c.Early + c.Dropped, Marked: c.Marked, Reduced: c.Notified, Queue: c.Delays}
		return err
	})
	return s, err
}

func (d *nodeShapers) close() error {
	var all []error
	if d.sockets != nil {
		all = append(all, d.sockets.Close())
	}
	if d.pins != nil {
		all = append(all, d.pins.Close())
	}
	return errors.Join(all...)
}

// checkShaper returns an error if this kernel cannot shape the direction.
func checkShaper(l scenario.Limit) error {
	if err := settings(l).Check(); err != nil {
		return err
	}
	_, err := shape.Available(l.Direction)
	return err
}

// describeShaper names the qdisc.
func describeShaper() string {
	by, err := shape.Available(direction.Egress)
	if err != nil {
		return police.ModeShape
	}
	return fmt.Sprintf("%s (departure times, in %s)", police.ModeShape, by)
}
