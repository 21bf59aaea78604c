// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"slices"

	"weir/kernel/rtnl"
)

// tunnelKinds are kinds of devices that send packets through a lower device with other addresses.
var tunnelKinds = []string{"vxlan", "geneve", "gre", "gretap", "erspan", "ip6gre", "ip6gretap", "ip6erspan", "ipip", "sit", "ip6tnl", "vti", "vti6",
	"xfrm", "wireguard"}

// upperKinds are kinds of devices that send through a lower device, or have no queue to replace.
var upperKinds = append([]string{"bridge", "bond", "team", "vlan", "macvlan", "macvtap", "ipvlan", "vrf", "ifb", "nlmon", "vcan", "can"}, tunnelKinds...)

// stackedKinds are kinds of devices that may send through another device, which their attributes do
// not name. The frames may have a protocol of their own there, so each device charges scopes.
var stackedKinds = []string{"ppp", "macsec", "openvswitch", "dsa", "batadv", "hsr", "ovpn", "bareudp", "gtp", "amt", "ipoib", "rmnet"}

// Tunnel returns the name of an active device that sends packets with other addresses, or "".
func Tunnel(devices []rtnl.Device) string {
	return first(devices, func(d rtnl.Device) bool { return slices.Contains(tunnelKinds, d.Kind) })
}

// Stacked returns the name of an active egress device that may send through another egress device,
// or "". Both would charge the packets of scopes.
func Stacked(devices []rtnl.Device) string {
	masters := map[int]bool{}
	for _, d := range devices {
		masters[d.Master] = true
	}
	return first(devices, func(d rtnl.Device) bool {
		return sends(d) && (d.Below != 0 || masters[d.Index] || slices.Contains(stackedKinds, d.Kind))
	})
}

// Uplink returns the name of an active device through which a network namespace may send packets
// that reach no device of another namespace, or "".
func Uplink(devices []rtnl.Device) string {
	without := []string{"veth", "bridge", "dummy", "ifb", "nlmon", "vcan", "vrf"}
	return first(devices, func(d rtnl.Device) bool { return d.Name != "lo" && !slices.Contains(without, d.Kind) })
}

// first returns the name of the first active device that is as described.
func first(devices []rtnl.Device, is func(rtnl.Device) bool) string {
	for _, d := range devices {
		if d.Up && is(d) {
			return d.Name
		}
	}
	return ""
}

// sends reports whether a device sends packets out of its network namespace: all but loopback and
// upper devices.
func sends(d rtnl.Device) bool { return d.Name != "lo" && !slices.Contains(upperKinds, d.Kind) }

// egressDevices returns the devices of this network namespace that send packets out of it.
func egressDevices() (all []rtnl.Device, err error) {
	links, err := rtnl.Open(nil)
	if err != nil {
		return nil, err
	}
	defer links.Close()
	devices, err := links.Devices()
	return slices.DeleteFunc(devices, func(d rtnl.Device) bool { return !sends(d) }), err
}
