// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"fmt"
	"net/netip"

	"weir/core/selector"
	"weir/kernel/rtnl"
	"weir/kernel/sysctl"
)

const (
	loopback       = "lo" // in every namespace
	behindLoopback = "no peer of its own is behind lo"
)

// deviceTo returns the name of the device by which this host reaches an address.
func deviceTo(remote netip.Addr) (string, error) {
	conn, err := rtnl.Open(nil)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	return conn.DeviceTo(remote)
}

// barred returns the reason, with advice, why flows to the peer bypass the interface of the test's
// scope; "" if they pass it.
func (o Options) barred(t *Test) (string, error) {
	name := t.inside.Device
	if o.Peer == nil {
		return closed(name)
	}
	at := o.Peer.Target.Addr()
	device, err := deviceTo(at)
	switch {
	case err != nil:
		return fmt.Sprintf("no route leads to the peer (%v): name one behind %s with --peer, or leave it out", err, name), nil
	case device != name:
		return fmt.Sprintf("the peer %s is not reached over %s but over %s: name one behind %s with --peer, or leave it out", at, name, device, name), nil
	case name == loopback:
		return t.Check.Charged.Exempt, nil
	}
	return "", nil
}

// withoutIPv6 reports whether the device of a scope has no IPv6.
func (o Options) withoutIPv6(in selector.Inside) bool {
	return in.Device != "" && o.Peer == nil && ipv6Off(in.Device)
}

// closed returns the reason, with advice, why an own peer cannot be reached through a device; "" if
// it can.
func closed(name string) (string, error) {
	conn, err := rtnl.Open(nil)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	devices, err := conn.Devices()
	if err != nil {
		return "", err
	}
	byIndex := map[int]string{}
	for _, d := range devices {
		byIndex[d.Index] = d.Name
	}
	for _, d := range devices {
		switch {
		case d.Name != name:
			continue
		case name == loopback:
			return behindLoopback + ": start one with 'weir prove --listen 127.0.0.1:5201' and name it with --peer", nil
		case d.Master != 0:
			return fmt.Sprintf("%s is a part of %s, which takes over the received packets: name %s in the scope instead, or name a peer with --peer", name,
				byIndex[d.Master], byIndex[d.Master]), nil
		case !d.Up:
			return fmt.Sprintf("%s is down: bring it up with 'ip link set %s up'", name, name), nil
		}
		return "", nil
	}
	return fmt.Sprintf("there is no interface %s in this network namespace", name), nil
}

// ipv6Off reports whether a device has no IPv6, so that no bypass by IPv6 is possible.
func ipv6Off(device string) bool {
	value, err := sysctl.Get(nil, "net/ipv6/conf/"+device+"/disable_ipv6")
	return err != nil || value == "1"
}
