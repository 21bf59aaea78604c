// SPDX-License-Identifier: Apache-2.0

// Package domain makes nodes of a built testbed nodes of an IOAM domain, by the room's own data
// plane, and reads what packets tell where their options end.
//
// What will bite you: a super-packet counts as one packet, and is cut between a plain link and an
// emulated one; so counters of different nodes are those of the same packets only where all links
// of a path are plain, or all emulated.
package domain

import (
	"errors"
	"fmt"

	"weir/internal/fault"
	"weir/kernel/probe"
	"weir/lab/scenario"
	"weir/lab/topology"
	"weir/modules/ioam"
	"weir/modules/ioam/collect"
)

// Domain is the nodes of a cell at work. nil has none. It is not safe for concurrent use.
type Domain struct {
	nodes []*node
}

// node is one of them.
type node struct {
	name     string
	attached *ioam.Attached
	reading  *reading // nil where nothing is read
	before   ioam.Counts
	edges    []ioam.Edge // before
}

// Check says whether this kernel has what the nodes of a cell need. Nothing is changed.
func Check(cell *scenario.Cell) error {
	for _, n := range cell.Nodes {
		if !n.IOAM.On() {
			continue
		}
		if err := probe.DeviceHook(); err != nil {
			return fault.Wrap(fmt.Errorf("%s: ioam: %w", n.Name, err), fault.Testbed, "use a kernel with TCX (Linux 6.6) or clsact")
		}
		return nil
	}
	return nil
}

// Attach makes the nodes.
func Attach(cell *scenario.Cell, built *topology.Topology) (*Domain, error) {
	d := &Domain{}
	for _, n := range cell.Nodes {
		if !n.IOAM.On() {
			continue
		}
		if err := d.attach(n, built); err != nil {
			return nil, errors.Join(fmt.Errorf("make %s an IOAM node: %w", n.Name, err), d.Close())
		}
	}
	if len(d.nodes) == 0 {
		return nil, nil
	}
	return d, nil
}

func (d *Domain) attach(n scenario.Node, built *topology.Topology) error {
	device := func(link string) string {
		for _, end := range built.Ends {
			if end.Link == link && end.Node == n.Name {
				return end.Device
			}
		}
		return link
	}
	attached, err := ioam.Attach(built.Nodes[n.Name], n.IOAM.Setup, device)
	if err != nil {
		return err
	}
	one := &node{name: n.Name, attached: attached}
	d.nodes = append(d.nodes, one)
	if n.IOAM.Collect && n.IOAM.Setup.Removes() {
		one.reading, err = read(attached)
	}
	return err
}

// Status is what a node did, and what it was told of packets, in a span of time.
type Status struct {
	Node      string
	Counts    ioam.Counts
	Collected *collect.Summary // nil where nothing is read
	Edges     []ioam.Edge      // flows whose edge-to-edge options end here
}

// Begin begins the span that End ends.
func (d *Domain) Begin() (err error) {
	if d == nil {
		return nil
	}
	for _, n := range d.nodes {
		if n.before, err = n.attached.Counts(); err != nil {
			return fmt.Errorf("node %s: %w", n.name, err)
		}
		if n.edges, err = n.attached.Edges(); err != nil {
			return fmt.Errorf("node %s: %w", n.name, err)
		}
		if n.reading != nil {
			if _, err := n.reading.take(); err != nil {
				return fmt.Errorf("node %s: %w", n.name, err)
			}
		}
	}
	return nil
}

// End returns what the nodes did since Begin.
func (d *Domain) End() ([]Status, error) {
	if d == nil {
		return nil, nil
	}
	var all []Status
	for _, n := range d.nodes {
		now, err := n.attached.Counts()
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", n.name, err)
		}
		edges, err := n.attached.Edges()
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", n.name, err)
		}
		s := Status{Node: n.name, Counts: now.Minus(n.before), Edges: ioam.EdgesSince(n.edges, edges)}
		if n.reading != nil {
			if s.Collected, err = n.reading.take(); err != nil {
				return nil, fmt.Errorf("node %s: %w", n.name, err)
			}
		}
		all = append(all, s)
	}
	return all, nil
}

// Counts are what a node has done since it is one; false where it is none.
func (d *Domain) Counts(name string) (c ioam.Counts, is bool, err error) {
	if d == nil {
		return c, false, nil
	}
	for _, n := range d.nodes {
		if n.name == name {
			c, err = n.attached.Counts()
			return c, true, err
		}
	}
	return c, false, nil
}

// Close ends the nodes. What they have changed otherwise goes with their namespaces.
func (d *Domain) Close() (err error) {
	if d == nil {
		return nil
	}
	for _, n := range d.nodes {
		if n.reading != nil {
			err = errors.Join(err, n.reading.close())
		}
		err = errors.Join(err, n.attached.Close())
	}
	return err
}
