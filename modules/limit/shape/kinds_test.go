// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"testing"

	"weir/kernel/rtnl"
)

// Devices with which a shaper of scopes would leave packets out or charge them twice.
func TestKindsOfDevices(t *testing.T) {
	eth0 := rtnl.Device{Name: "eth0", Kind: "device", Index: 2, Up: true}
	for _, test := range []struct {
		device                  rtnl.Device
		tunnel, stacked, uplink bool
	}{
		{rtnl.Device{Name: "lo", Kind: "device"}, false, false, false},
		{rtnl.Device{Name: "eth1", Kind: "device"}, false, false, true},
		{rtnl.Device{Name: "veth1", Kind: "veth"}, false, false, false},
		{rtnl.Device{Name: "br0", Kind: "bridge"}, false, false, false},
		{rtnl.Device{Name: "vlan5", Kind: "vlan", Below: 2}, false, false, true},
		{rtnl.Device{Name: "mac0", Kind: "macvtap", Below: 2}, false, false, true},
		{rtnl.Device{Name: "wg0", Kind: "wireguard"}, true, false, true},
		{rtnl.Device{Name: "t", Kind: "ipip", Below: 2}, true, false, true},
		{rtnl.Device{Name: "tap0", Kind: "tun"}, false, false, true},
		{rtnl.Device{Name: "ppp0", Kind: "ppp"}, false, true, true},
		{rtnl.Device{Name: "macsec0", Kind: "macsec", Below: 2}, false, true, true},
		{rtnl.Device{Name: "lan1", Kind: "device", Below: 2}, false, true, true},
	} {
		test.device.Index = 3
		for _, up := range []bool{false, true} {
			test.device.Up = up
			all := []rtnl.Device{test.device}
			for what, at := range map[string]struct{ got, want bool }{
				"tunnel":  {Tunnel(append(all, eth0)) != "", test.tunnel && up},
				"stacked": {Stacked(append(all, eth0)) != "", test.stacked && up},
				"uplink":  {Uplink(all) != "", test.uplink && up},
			} {
				if at.got != at.want {
					t.Errorf("%s (%s), up %t: %s %t, want %t", test.device.Name, test.device.Kind, up, what, at.got, at.want)
				}
			}
		}
	}
	port, failover := rtnl.Device{Name: "eth1", Kind: "device", Index: 4, Master: 5, Up: true}, rtnl.Device{Name: "eth2", Kind: "device", Index: 5, Up: true}
	if got := Stacked([]rtnl.Device{port, failover}); got != "eth2" {
		t.Errorf("master without a kind: %q", got)
	}
}
