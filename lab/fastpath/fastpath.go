// SPDX-License-Identifier: Apache-2.0

// Package fastpath has routers of a built testbed forward by Weir's offload in place of their
// kernel, so that ways to forward can be measured side by side under one routing table.
package fastpath

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"weir/internal/fault"
	"weir/kernel/ethtool"
	"weir/lab/scenario"
	"weir/lab/topology"
	"weir/modules/offload"
)

// Paths are the fast paths of a cell. nil has none.
type Paths struct {
	attached map[string]*offload.Attached // by router
	by       map[string]string
}

// Check says whether this kernel has what the routers of a cell forward by. Nothing is changed.
func Check(cell *scenario.Cell) error {
	for _, n := range cell.Nodes {
		if n.Forwarding == "" {
			continue
		}
		if err := offload.Able(n.Forwarding); err != nil {
			return fault.Wrap(fmt.Errorf("router %s: %w", n.Name, err), fault.Testbed, "leave it out of the sweep, as --set forwarding=kernel,xdp")
		}
	}
	return nil
}

// Attach has each router forward as its node says, between all its devices, by the routes that it
// has now.
func Attach(cell *scenario.Cell, built *topology.Topology) (*Paths, error) {
	p := &Paths{map[string]*offload.Attached{}, map[string]string{}}
	for _, n := range cell.Nodes {
		if n.Forwarding == "" {
			continue
		}
		t := &offload.Treatment{Backend: n.Forwarding, IPv4: true, IPv6: true}
		for i, end := range built.Ends {
			if end.Node != n.Name {
				continue
			}
			t.From = append(t.From, end.Device)
			if err := receives(built, end, built.Ends[i^1]); err != nil {
				return nil, errors.Join(err, p.Close())
			}
		}
		attached, err := offload.Attach(built.Nodes[n.Name], t)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("have router %s forward by %s: %w", n.Name, n.Forwarding, err), p.Close())
		}
		p.attached[n.Name], p.by[n.Name] = attached, n.Forwarding
	}
	return p, nil
}

// receives has the far end of a plain link take frames that are redirected to the near one: a veth
// device does so with NAPI alone, which GRO brings. Emulated links end at XDP, which brings it too.
func receives(built *topology.Topology, near, far topology.End) error {
	if near.Carrier != "" {
		return nil
	}
	return ethtool.SetFeatures(built.Nodes[far.Node], far.Device, map[string]bool{"gro": true})
}

// By is what forwards a router's packets; "" for its kernel.
func (p *Paths) By(router string) string {
	if p == nil {
		return ""
	}
	return p.by[router]
}

// Forwards is an error if a fast path has forwarded nothing: then what was measured was another's.
func (p *Paths) Forwards() error {
	if p == nil {
		return nil
	}
	for _, router := range slices.Sorted(maps.Keys(p.attached)) {
		n, err := p.attached[router].Forwarded()
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("router %s has forwarded nothing by %s: its kernel has, or nothing came", router, p.by[router])
		}
	}
	return nil
}

// Close ends them.
func (p *Paths) Close() (err error) {
	if p == nil {
		return nil
	}
	for _, a := range p.attached {
		err = errors.Join(err, a.Close())
	}
	return err
}
