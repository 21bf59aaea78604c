// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"net/netip"
	"slices"

	"weir/modules/offload/state"
)

// Input is a link with packets to offload.
type Input struct {
	Link   int
	Name   string
	Port   int // index of the receiving device
	VLAN   int // 0 for frames without a tag
	MAC    state.MAC
	IPv4   bool // forwarding is on
	IPv6   bool
	Filter int // reverse-path filter of IPv4: 0 none, 1 strict, 2 loose
	// Unfinished reports that frames may come from other namespaces of this host with incomplete
	// checksums.
	Unfinished bool
}

// Hop is where a fast path sends a packet.
type Hop struct {
	Link     int // output link of the kernel
	Port     int // output device
	VLAN     int // 0 without a tag
	Src, Dst state.MAC
	MTU      int // largest packet, without the link layer's header
	Weight   int
}

// plainKinds lists the kinds of links that transmit frames unchanged.
var plainKinds = []string{"", "veth", "bond", "netdevsim"}

// port returns the device and the VLAN tag of a link's frames.
func port(s *state.State, l state.Link) (device state.Link, vlan int, err error) {
	device = l
	if l.Kind == "vlan" {
		const ethernetVLAN = 0x8100
		parent, known := s.Links[l.Parent]
		switch {
		case l.Elsewhere || !known:
			return device, 0, fmt.Errorf("the device below %s is in another namespace", l.Name)
		case l.Protocol != ethernetVLAN:
			return device, 0, fmt.Errorf("the tags of %s are not 802.1Q", l.Name)
		}
		device, vlan = parent, l.VLAN
	}
	switch {
	case !l.Ethernet || l.Loopback:
		err = fmt.Errorf("%s has no Ethernet frames", l.Name)
	case !slices.Contains(plainKinds, device.Kind):
		err = fmt.Errorf("%s is a device of kind %s, which changes its frames", device.Name, device.Kind)
	case l.Master != 0 || device.Master != 0:
		err = fmt.Errorf("%s belongs to another device (bond, bridge or VRF)", device.Name)
	}
	return device, vlan, err
}

// anycast reports whether whole networks are local: the CPU must reject packets with such sources,
// so sources need a lookup.
func anycast(s *state.State) bool {
	loopback := netip.MustParsePrefix("127.0.0.0/8")
	for to, e := range s.Tables[state.LocalTable] {
		if e.Best.Type == state.Local && to.Addr().Is4() && to.Bits() < 32 && to != loopback {
			return true
		}
	}
	return false
}

// virtual reports whether frames of a device come from this host.
func virtual(s *state.State, device state.Link) bool {
	if device.Kind == "veth" {
		return true
	}
	for _, l := range s.Links {
		if device.Kind == "bond" && l.Master == device.Index && l.Kind == "veth" {
			return true
		}
	}
	return false
}

// inputs returns the links of the policy's From.
func inputs(s *state.State, p Policy) (all []Input, err error) {
	for _, name := range p.From {
		l, known := s.Find(name)
		if !known {
			continue // see Missing
		}
		device, vlan, err := port(s, l)
		if err != nil {
			return nil, err
		}
		all = append(all, Input{Link: l.Index, Name: l.Name, Port: device.Index, VLAN: vlan, MAC: l.MAC, IPv4: p.IPv4 && l.Forward4 && l.Up && !filteredInput(s, l.Index, false),
			IPv6: p.IPv6 && s.Host.Forward6 && l.Up && !filteredInput(s, l.Index, true), Filter: max(s.Host.RPFilter, l.RPFilter), Unfinished: virtual(s, device)})
	}
	if anycast(s) {
		for i := range all {
			const loose = 2
			if all[i].Filter == 0 {
				all[i].Filter = loose
			}
		}
	}
	return all, nil
}

// Missing returns the links of a policy that do not exist. Their packets belong to the CPU.
func Missing(s *state.State, p Policy) (all []string) {
	for _, name := range slices.Concat(p.From, p.To) {
		if _, known := s.Find(name); !known && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// outputs returns the links of the policy's To, or From.
func outputs(s *state.State, p Policy) (map[int]bool, error) {
	names := p.To
	if len(names) == 0 {
		names = p.From
	}
	all := map[int]bool{}
	for _, name := range names {
		l, known := s.Find(name)
		if !known {
			continue
		}
		if _, _, err := port(s, l); err != nil {
			return nil, err
		}
		all[l.Index] = true
	}
	return all, nil
}
