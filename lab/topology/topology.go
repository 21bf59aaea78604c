// SPDX-License-Identifier: Apache-2.0

// Package topology builds a scenario's cell: a namespace per node, veth devices, addresses,
// neighbours, routes and settings.
//
// An emulated link is two veth pairs that meet in one more namespace, the carrier's, where only the
// carrier moves frames: it has no addresses and no IPv6, so it sends no frame of its own. A plain
// link is one veth pair.
//
// [link.Prepare] prepares the hosts' ends of emulated links, so that hosts send finished frames of
// at most MTU size. A node's own offloads are applied after that and override it. Neighbours are
// static and IPv6 addresses skip duplicate detection, so that every frame on a link belongs to the
// experiment. A host with a single link has one route per family for all lab addresses.
package topology

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"weir/kernel/instance"
	"weir/kernel/netns"
	"weir/lab/link"
	"weir/lab/scenario"
)

// carrier is the carrier namespace's name; no node can have it.
const carrier = "_links"

// parallel is the number of concurrent namespaces. The kernel serializes most of the work; a higher
// number gains nothing.
const parallel = 8

// Topology is a built cell. Close closes its handles; the instance removes the namespaces.
type Topology struct {
	Nodes map[string]*netns.Namespace
	// Carrier is the namespace of the emulated links; nil without any.
	Carrier *netns.Namespace
	// Cables are the emulated links, ready for a carrier; all their devices are up.
	Cables []link.Cable
	// Directory holds the files with the nodes' names: see HostsFile.
	Directory string
	// Ends are the nodes' devices, two per link, in the order of the cell's links.
	Ends []End
}

// End is a link's device in a node.
type End struct {
	Link, Node string
	Device     string // in the node's namespace
	Carrier    string // the pair's other end in the carrier namespace; "" for a plain link
}

// Build makes the cell's topology as part of the instance. After an error the instance's Clear
// removes the partial topology.
func Build(ctx context.Context, lab *instance.Instance, cell *scenario.Cell) (*Topology, error) {
	p := planOf(cell)
	if err := lab.Announce(p.names); err != nil {
		return nil, err
	}
	if err := writeHosts(lab.Dir, cell); err != nil {
		return nil, err
	}
	t := &Topology{Nodes: map[string]*netns.Namespace{}, Cables: p.cables, Ends: p.ends, Directory: lab.Dir}
	err := t.build(ctx, lab, cell, p)
	if err != nil {
		t.Close()
		return nil, fmt.Errorf("build topology: %w", err)
	}
	return t, nil
}

func (t *Topology) build(ctx context.Context, lab *instance.Instance, cell *scenario.Cell, p *plan) error {
	if err := t.createNamespaces(ctx, lab, p); err != nil {
		return err
	}
	b := &builder{topology: t, cell: cell, plan: p}
	defer b.close()
	if err := b.open(); err != nil {
		return err
	}
	steps := []func(ctx context.Context, name string) error{b.prepare, b.addLinks, b.configure, b.await, b.connect}
	for _, step := range steps {
		work, ctx := errgroup.WithContext(ctx)
		work.SetLimit(parallel)
		for _, name := range p.names {
			work.Go(func() error {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				if err := step(ctx, name); err != nil {
					return fmt.Errorf("node %s: %w", name, err)
				}
				return nil
			})
		}
		if err := work.Wait(); err != nil {
			return err
		}
	}
	return nil
}

func (t *Topology) createNamespaces(ctx context.Context, lab *instance.Instance, p *plan) error {
	made := make([]*netns.Namespace, len(p.names))
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(parallel)
	for i, name := range p.names {
		work.Go(func() (err error) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			made[i], err = netns.Create(lab.Namespace(name))
			return err
		})
	}
	err := work.Wait()
	for i, name := range p.names {
		switch {
		case made[i] == nil:
		case name == carrier:
			t.Carrier = made[i]
		default:
			t.Nodes[name] = made[i]
		}
	}
	return err
}

// namespace returns the namespace of a node or the carrier.
func (t *Topology) namespace(name string) *netns.Namespace {
	if name == carrier {
		return t.Carrier
	}
	return t.Nodes[name]
}

// Close closes the handles of the namespaces.
func (t *Topology) Close() {
	for _, ns := range t.Nodes {
		_ = ns.Close()
	}
	if t.Carrier != nil {
		_ = t.Carrier.Close()
	}
}
