// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"fmt"
	"net"
	"net/netip"

	"weir/core/match"
	"weir/core/policy"
	"weir/internal/nearest"
	"weir/internal/units"
	"weir/kernel/ethtool"
	"weir/kernel/rtnl"
)

// device matches traffic by interface.
var device = Kind{
	SelectorKind: policy.SelectorKind{
		Key: Interface, Doc: "Traffic through a device, by the name of the device.", Sample: "",
		Parse: func(text string) (string, string, error) {
			if !policy.IsDevice(text) {
				return "", "", fmt.Errorf("%q is not a device name", text)
			}
			return text, "interface " + text, nil
		},
	},
	Bind: func(h *Host, text string) (Binding, error) {
		device, err := net.InterfaceByName(h.device(text))
		if err != nil {
			return Binding{Missing: noInterface(text)}, nil
		}
		return Binding{Key: match.OfInterface(device.Index)}, nil
	},
	Near: func(_ *Host, text string) string {
		devices, err := net.Interfaces()
		if err != nil {
			return ""
		}
		var names []string
		for _, d := range devices {
			names = append(names, d.Name)
		}
		return nearest.Of(text, names)
	},
	Inside: func(h *Host, text string) (Inside, string, error) {
		missing, name := "", h.device(text)
		if _, err := net.InterfaceByName(name); err != nil {
			missing = noInterface(text)
		}
		return Inside{Device: name, By: "the device"}, missing, nil
	},
	Speed: func(text string) (units.BitRate, string) { return linkSpeed(text), text + " carries" },
}

// device returns the kernel's name of a device.
func (h *Host) device(name string) string {
	if h.Device == nil {
		return name
	}
	return h.Device(name)
}

// IsLoopback reports whether a selector matches only the loopback device or its addresses.
func IsLoopback(s policy.Selector) bool {
	to, err := netip.ParsePrefix(s.Text)
	return s.Kind == device.Key && s.Text == "lo" || s.Kind == prefix.Key && err == nil && to.Addr().IsLoopback()
}

func noInterface(name string) string { return "there is no interface " + name }

// linkSpeed returns the speed of a device; 0 if unknown.
func linkSpeed(device string) units.BitRate {
	speed, err := ethtool.Speed(nil, device)
	if err == nil {
		return speed
	}
	conn, err := rtnl.Open(nil) // ethtool's requests have no space for long alternative names
	if err != nil {
		return 0
	}
	defer conn.Close()
	d, err := conn.Device(device)
	if err != nil {
		return 0
	}
	speed, err = ethtool.Speed(nil, d.Name)
	if err != nil {
		return 0
	}
	return speed
}

// hardwareSpeed returns the sum of the speeds of all hardware devices, or 0 if one is unknown.
func hardwareSpeed() (sum units.BitRate) {
	devices, err := ethtool.Hardware()
	if err != nil {
		return 0
	}
	for _, device := range devices {
		speed := linkSpeed(device)
		if speed == 0 {
			return 0
		}
		sum += speed
	}
	return sum
}
