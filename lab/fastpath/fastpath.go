// SPDX-License-Identifier: Apache-2.0

// Package fastpath attaches Weir's offload to routers of a built testbed, so that fast paths and
// the kernel can be compared under one routing table.
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

// Paths holds the fast paths of a cell; nil has none.
type Paths struct {
	attached map[string]*offload.Attached // by router
	by       map[string]string
}

// Check reports whether this kernel supports the fast paths of a cell. It changes nothing.
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

// Attach starts each router's fast path between all its devices, with the routes of this moment.
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

// receives makes the far end of a plain link accept frames that XDP redirects to the near end. veth
// accepts them only with NAPI, and GRO enables NAPI. Emulated links end at an XDP program, which
// enables it too.
func receives(built *topology.Topology, near, far topology.End) error {
	if near.Carrier != "" {
		return nil
	}
	return ethtool.SetFeatures(built.Nodes[far.Node], far.Device, map[string]bool{"gro": true})
}

// By returns the fast path of a router, or "" if its kernel forwards.
func (p *Paths) By(router string) string {
	if p == nil {
		return ""
	}
	return p.by[router]
}

// Forwards returns an error if a fast path has forwarded nothing: then the kernel forwarded the
// measured traffic.
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

// Close detaches the fast paths.
func (p *Paths) Close() (err error) {
	if p == nil {
		return nil
	}
	for _, a := range p.attached {
		err = errors.Join(err, a.Close())
	}
	return err
}
