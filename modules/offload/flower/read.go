// SPDX-License-Identifier: Apache-2.0

package flower

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/kernel/flower"
	"weir/kernel/netns"
	"weir/modules/offload/pins"
	"weir/modules/offload/plan"
)

// ErrNone is returned without active rules.
var ErrNone = errors.New("no fast path is active")

// Port is the state of a port in the kernel.
type Port struct {
	Index   int
	Name    string
	Filters []flower.Filter // Weir's
	Foreign int             // filters of others
	routes  map[bool][]step // by family
	forward map[uint32]*flower.Forward
}

// step holds the rules of one priority and prefix length, in match order.
type step struct {
	priority uint16
	length   int
	to       map[netip.Prefix]uint32 // chain, 0 for the stack
}

// Seen is the active state dumped from the kernel.
type Seen struct {
	Ports  []Port
	folder string
}

// Read dumps the active rules; [ErrNone] without any.
func Read(ns *netns.Namespace, folder string) (*Seen, error) {
	sets, err := pins.List(folder, rulesPin)
	if err != nil {
		return nil, fmt.Errorf("read the fast path: %w", err)
	}
	ports, err := pins.List(folder, portPin)
	if err != nil {
		return nil, fmt.Errorf("read the fast path: %w", err)
	}
	if len(sets) == 0 {
		return nil, ErrNone
	}
	s := &Seen{folder: filepath.Join(folder, sets[len(sets)-1])}
	for _, n := range ports {
		index, err := strconv.Atoi(strings.TrimPrefix(n, portPin))
		if err != nil {
			continue
		}
		if _, err := NameOf(ns, index); err != nil {
			continue // InPlace reports it
		}
		p := Port{Index: index}
		name, all, err := look(ns, index)
		if err != nil {
			return nil, err
		}
		p.Name = name
		for _, f := range all {
			if own(f) {
				p.Filters = append(p.Filters, f)
			} else {
				p.Foreign++
			}
		}
		p.arrange()
		s.Ports = append(s.Ports, p)
	}
	return s, nil
}

// arrange sorts the reachable rules in match order.
func (p *Port) arrange() {
	p.routes, p.forward = map[bool][]step{}, map[uint32]*flower.Forward{}
	const tagged = 0x8100
	led, plain := map[uint32]bool{}, map[uint32]bool{} // reachable chains, and those with rules for untagged frames
	for _, f := range p.Filters {
		if f.Chain == 0 {
			led[f.Goto] = true
		}
		if f.EtherType != tagged && f.Priority >= priorityPrefix {
			plain[f.Chain] = true
		}
		if f.Forward != nil && f.Forward.Device != 0 {
			p.forward[f.Chain] = f.Forward
		}
	}
	for _, f := range p.Filters {
		if !led[f.Chain] || f.Chain == 0 || f.Priority < priorityPrefix || f.EtherType == tagged && plain[f.Chain] {
			continue
		}
		to, ipv6 := f.Dst, (f.Chain-firstChain)%generation == routes6
		if !to.IsValid() {
			to = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
			if ipv6 {
				to = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
			}
		}
		steps := p.routes[ipv6]
		at := slices.IndexFunc(steps, func(s step) bool { return s.priority == f.Priority && s.length == to.Bits() })
		if at < 0 {
			at = len(steps)
			steps = append(steps, step{f.Priority, to.Bits(), map[netip.Prefix]uint32{}})
		}
		steps[at].to[to] = f.Goto
		p.routes[ipv6] = steps
	}
	for _, steps := range p.routes {
		slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(a.priority, b.priority) })
	}
}

// Hops returns the rules' hops for an address, without MTU; nil for the stack.
func (p *Port) Hops(a netip.Addr) []plan.Hop {
	for _, s := range p.routes[a.Is6()] {
		to, err := a.Prefix(s.length)
		if err != nil {
			continue
		}
		chain, found := s.to[to]
		if !found {
			continue
		}
		f := p.forward[chain]
		if chain == 0 || f == nil {
			return nil
		}
		return []plan.Hop{{Port: f.Device, VLAN: int(f.VLAN), Src: f.Src, Dst: f.Dst}}
	}
	return nil
}

// Leads reports whether frames of a family reach the rules.
func (p *Port) Leads(ipv6 bool) bool {
	return slices.ContainsFunc(p.Filters, func(f flower.Filter) bool {
		return f.Chain == 0 && f.Goto != 0 && (f.Goto-firstChain)%generation == uint32(routes4+index(ipv6))
	})
}

// InHardware returns the number of rules in the NIC.
func (p *Port) InHardware() (n int) {
	for _, f := range p.Filters {
		if f.InHW {
			n++
		}
	}
	return n
}

// Forwarded returns packets and frame bytes sent by the rules.
func (s *Seen) Forwarded() (packets, octets uint64) {
	for _, p := range s.Ports {
		for _, f := range p.Filters {
			if f.Forward != nil && f.Forward.Device != 0 {
				packets, octets = packets+f.Packets, octets+f.Octets
			}
		}
	}
	return packets, octets
}

// Lease returns the rest of the lease; known is false for a NIC, which ignores it.
func (s *Seen) Lease() (lease time.Duration, known bool, err error) {
	lease, err = leaseIn(s.folder)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	return lease, err == nil, err
}

// Words describes a rule.
func Words(f flower.Filter) string {
	switch {
	case f.Forward != nil && f.Forward.Device != 0:
		text := fmt.Sprintf("forward by device %d to %s", f.Forward.Device, mac(f.Forward.Dst))
		if f.Forward.VLAN != 0 {
			text += fmt.Sprintf(", VLAN %d", f.Forward.VLAN)
		}
		return text
	case f.Goto != 0:
		return fmt.Sprintf("go to chain %d", f.Goto)
	}
	return "leave to the stack"
}

func mac(b [6]byte) string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3], b[4], b[5])
}
