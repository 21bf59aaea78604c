// SPDX-License-Identifier: Apache-2.0

// Package domain makes nodes of a built testbed nodes of an IOAM domain, with the ioam module's own
// data plane, and collects the options at their end points.
//
// Pitfalls: a super-packet (GSO, GRO) counts as one packet, and is cut between a plain link and an
// emulated one. Counters of different nodes are comparable only if all links of a path are plain,
// or all are emulated.
package domain

import (
	"errors"
	"fmt"

	"weir/internal/fault"
	"weir/kernel/probe"
	"weir/lab/scenario"
	"weir/lab/topology"
	"weir/modules/ioam/collect"
	"weir/modules/ioam/node"
)

// Domain holds the active nodes of a cell; nil has none. It is not safe for concurrent use.
type Domain struct {
	nodes []*member
}

type member struct {
	name     string
	attached *node.Attached
	reading  *reading // nil without a reader
	before   node.Counts
	edges    []node.Edge // counters at Begin
}

// Check reports whether this kernel supports the nodes of a cell. It changes nothing.
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

// Attach activates the nodes.
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
	attached, err := n.IOAM.Setup.Attach(built.Nodes[n.Name], device)
	if err != nil {
		return err
	}
	one := &member{name: n.Name, attached: attached}
	d.nodes = append(d.nodes, one)
	if n.IOAM.Collect && n.IOAM.Setup.Removes() {
		one.reading, err = read(attached)
	}
	return err
}

// Status holds the counters and collected data of a node between Begin and End.
type Status struct {
	Node      string
	Counts    node.Counts
	Collected *collect.Summary // nil without a reader
	Edges     []node.Edge      // flows with edge-to-edge options that end here
}

// Begin starts the measurement interval that End ends.
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

// End returns the counters since Begin.
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
		s := Status{Node: n.name, Counts: now.Minus(n.before), Edges: node.EdgesSince(n.edges, edges)}
		if n.reading != nil {
			if s.Collected, err = n.reading.take(); err != nil {
				return nil, fmt.Errorf("node %s: %w", n.name, err)
			}
		}
		all = append(all, s)
	}
	return all, nil
}

// Counts returns a node's counters since Attach. The second result is false if the name is not a
// node.
func (d *Domain) Counts(name string) (c node.Counts, is bool, err error) {
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

// Close detaches the nodes. All their other changes disappear with their namespaces.
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
