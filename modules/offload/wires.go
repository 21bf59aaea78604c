// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"weir/internal/fault"
	"weir/kernel/ethtool"
	"weir/kernel/sysfs"
	"weir/modules/offload/state"
)

// wiresSuitXDP rejects devices that hide parts of frames from XDP, or drop redirected frames.
func (p *hostPlane) wiresSuitXDP(t *Treatment, s *state.State) error {
	for _, name := range t.From {
		if device := below(s, name); carriesVLANs(s, device.Index) && device.Name != "" {
			if err := p.tagsAreSeen(s, device); err != nil {
				return err
			}
		}
	}
	for _, name := range slices.Concat(t.From, t.To) {
		if device := below(s, name); device.Kind == "bond" {
			if err := p.bondTakes(device.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// below returns the device that receives a link's frames; the zero value for links that the planner
// rejects.
func below(s *state.State, name string) state.Link {
	l, _ := s.Find(name)
	if l.Kind == "vlan" {
		l = s.Links[l.Parent]
	}
	return l
}

func carriesVLANs(s *state.State, index int) bool {
	for _, l := range s.Links {
		if l.Kind == "vlan" && l.Parent == index {
			return true
		}
	}
	return false
}

// tagsAreSeen rejects devices that remove VLAN tags before XDP: XDP would take such frames for
// untagged. A bond reports the setting itself but does not apply it, so its devices decide.
func (p *hostPlane) tagsAreSeen(s *state.State, device state.Link) error {
	wires := []state.Link{device}
	if device.Kind == "bond" {
		wires = nil
		for _, l := range s.Links {
			if l.Master == device.Index {
				wires = append(wires, l)
			}
		}
	}
	for _, w := range wires {
		features, err := ethtool.Features(p.ns, w.Name)
		if err != nil {
			return fmt.Errorf("offload: %w", err)
		}
		if on := features["rx-vlan-hw-parse"] || features["rxvlan"]; on && w.Kind != "veth" {
			return fault.New(fault.Usage, "ethtool -K "+w.Name+" rxvlan off", "offload: %s removes VLAN tags from frames before XDP", w.Name)
		}
	}
	return nil
}

// bondTakes rejects bonds that drop redirected frames (bond_xdp_check in the kernel).
func (p *hostPlane) bondTakes(name string) error {
	var mode, hash string
	err := sysfs.Within(p.ns, func(devices string) error {
		for file, into := range map[string]*string{"mode": &mode, "xmit_hash_policy": &hash} {
			text, err := os.ReadFile(filepath.Join(devices, name, "bonding", file))
			if err != nil {
				return err
			}
			*into, _, _ = strings.Cut(string(text), " ")
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("offload: read bond %s: %w", name, err)
	}
	switch {
	case mode == "balance-rr" || mode == "active-backup":
		return nil
	case mode != "balance-xor" && mode != "802.3ad":
		return fault.New(fault.Usage, "set its mode to active-backup, balance-rr, balance-xor or 802.3ad, or use backend: flower",
			"offload: the kernel has no XDP for bond %s in mode %s", name, mode)
	case hash == "vlan+srcmac":
		return fault.New(fault.Usage, "ip link set "+name+" type bond xmit_hash_policy layer2, or use backend: flower",
			"offload: the kernel has no XDP for bond %s with xmit_hash_policy %s", name, hash)
	}
	return nil
}
