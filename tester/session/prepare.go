// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"weir/internal/fault"
	"weir/kernel/netns"
	"weir/kernel/nexthop"
	"weir/kernel/rtnl"
	"weir/tester"
	"weir/tester/generator"
)

// CheckPort rejects a port that cannot carry a test, and without iKnow also a device with a default
// route.
func CheckPort(port Port, iKnow bool) error {
	_, err := checkPort(port, 0, iKnow)
	return err
}

// checkPort rejects a port that cannot carry the test, or must not.
func checkPort(port Port, sizes int, iKnow bool) (rtnl.Device, error) {
	conn, err := rtnl.Open(port.Namespace)
	if err != nil {
		return rtnl.Device{}, err
	}
	defer conn.Close()
	device, err := conn.Device(port.Device)
	if err != nil {
		return device, fault.New(fault.Usage, elsewhere(port), "port %s: %w", port, err)
	}
	defaults, err := conn.DefaultRouteDevices()
	if err != nil {
		return device, err
	}
	switch {
	case slices.Contains(defaults, port.Device) && !iKnow:
		return device, fault.New(fault.Usage, "use a device of the test network, or add --i-know if this is one",
			"port %s carries a default route: test traffic there may reach other people's networks", port)
	case len(outside(port.CPUs)) > 0:
		return device, fault.New(fault.Usage, fmt.Sprintf("use some of %v", generator.CPUs(generator.Port{})),
			"port %s: the generator may not use the CPUs %v, or there are none such", port, outside(port.CPUs))
	case !device.Up:
		return device, fault.New(fault.Failed, fmt.Sprintf("run 'ip %slink set %s up'", inNamespace(port), port.Device),
			"port %s is down", port)
	case !device.Running:
		return device, fault.New(fault.Failed, "plug in the cable, or set the peer of the veth pair up", "port %s has no carrier", port)
	case len(device.MAC) != 6:
		return device, fault.New(fault.Usage, "use an Ethernet device", "port %s has no Ethernet address", port)
	case sizes > device.MTU+18+tagSize:
		return device, fault.New(fault.Usage,
			fmt.Sprintf("use frames of at most %d octets, or run 'ip %slink set %s mtu %d' on both ends", device.MTU+18, inNamespace(port), port.Device, sizes-18),
			"port %s has an MTU of %d: frames of %d octets do not fit", port, device.MTU, sizes)
	}
	return device, nil
}

// outside lists the CPUs that this process may not use.
func outside(cpus []int) []int {
	allowed := generator.CPUs(generator.Port{})
	return slices.DeleteFunc(slices.Clone(cpus), func(cpu int) bool { return slices.Contains(allowed, cpu) })
}

// tagSize is an 802.1Q tag, which is not part of an MTU.
const tagSize = 4

func inNamespace(port Port) string {
	if port.Namespace == nil || port.Namespace.Name == "" {
		return ""
	}
	return "-n " + port.Namespace.Name + " "
}

// elsewhere hints at the place of a missing device.
func elsewhere(port Port) string {
	names, err := netns.List("")
	if err != nil {
		return "run 'ip link' to see the devices"
	}
	var found []string
	for _, name := range names {
		if port.Namespace != nil && port.Namespace.Name == name {
			continue
		}
		if holds(name, port.Device) {
			found = append(found, name+":"+port.Device)
		}
	}
	if len(found) > 0 {
		return "it is in another network namespace: write " + strings.Join(found, " or ")
	}
	return fmt.Sprintf("run 'ip %slink' to see the devices; one in a network namespace is written NAMESPACE:DEVICE", inNamespace(port))
}

func holds(namespace, device string) bool {
	ns, err := netns.Open(namespace)
	if err != nil {
		return false
	}
	defer func() { _ = ns.Close() }()
	conn, err := rtnl.Open(ns)
	if err != nil {
		return false
	}
	defer conn.Close()
	_, err = conn.Device(device)
	return err == nil
}

// address fills in the MAC and IP addresses that the schedule leaves open, and notes its
// assumptions.
func address(ctx context.Context, d *Direction, from, to rtnl.Device) (notes []string, err error) {
	resolved := map[string][]byte{}
	d.Schedule.Streams = slices.Clone(d.Schedule.Streams)
	for i := range d.Schedule.Streams {
		h := &d.Schedule.Streams[i].Header
		if h.SourceMAC == nil {
			h.SourceMAC = from.MAC
		}
		guessed, err := addresses(d, h)
		if err != nil {
			return nil, err
		}
		if guessed != "" && !slices.Contains(notes, guessed) {
			notes = append(notes, guessed)
		}
		if h.DestinationMAC != nil {
			continue
		}
		key := h.Destination.String()
		if resolved[key] == nil {
			mac, note, err := destination(ctx, d, h, to)
			if err != nil {
				return nil, err
			}
			resolved[key] = mac
			if note != "" {
				notes = append(notes, note)
			}
		}
		h.DestinationMAC = resolved[key]
	}
	return notes, nil
}

// Addresses of the benchmarking networks (RFC 2544 appendix C, RFC 5180), for ports without an
// address of their own.
var (
	benchSource      = map[int]netip.Addr{4: netip.MustParseAddr("198.18.0.1"), 6: netip.MustParseAddr("2001:2::1")}
	benchDestination = map[int]netip.Addr{4: netip.MustParseAddr("198.19.0.1"), 6: netip.MustParseAddr("2001:2:0:1::1")}
)

// addresses replaces unspecified addresses by those of the ports, and notes a port without one. The
// address of a remote port is unknown.
func addresses(d *Direction, h *tester.Header) (note string, err error) {
	family := 4
	if h.Source.Is6() || h.Destination.Is6() {
		family = 6
	}
	for _, end := range []struct {
		address *netip.Addr
		port    Port
		bench   netip.Addr
	}{{&h.Source, d.From, benchSource[family]}, {&h.Destination, d.To, benchDestination[family]}} {
		if end.address.IsValid() && !end.address.IsUnspecified() {
			continue
		}
		if !end.port.Here() && h.DestinationMAC == nil {
			return "", fault.New(fault.Usage, "give --destination, or write destination in the stream; with destination_mac too, any address will do",
				"nothing says which address %s has, to which %s is to send", end.port, d.From)
		}
		own := netip.Addr{}
		if end.port.Here() {
			if own, err = nexthop.Address(end.port.Namespace, end.port.Device, family); err != nil {
				return "", err
			}
		}
		if *end.address = own; !own.IsValid() {
			*end.address = end.bench
			note = fmt.Sprintf("%s has no IPv%d address: frames carry %s, of the benchmarking networks", end.port, family, end.bench)
		}
	}
	return note, nil
}

// destination returns the MAC of the next hop; without a route the receiving port's own, as over a
// cable or a bridge.
func destination(ctx context.Context, d *Direction, h *tester.Header, to rtnl.Device) ([]byte, string, error) {
	mac, err := nexthop.Resolve(ctx, d.From.Namespace, d.From.Device, h.Destination)
	switch {
	case err == nil:
		return mac, "", nil
	case errors.Is(err, nexthop.ErrNone) && d.To.Here():
		return to.MAC, fmt.Sprintf("%s has no route to %s: its frames carry the address of %s, as over a cable or a bridge", d.From, h.Destination, d.To), nil
	case errors.Is(err, nexthop.ErrNone) || errors.Is(err, nexthop.ErrSilent):
		return nil, "", fault.New(fault.Failed,
			"check the cable and the addresses, or write destination_mac in the stream", "port %s: %w", d.From, err)
	}
	return nil, "", err
}

// checkSchedule rejects schedules that no generator supports.
func checkSchedule(directions []Direction) error {
	seen := map[uint16]bool{}
	sending := map[string]bool{}
	for _, d := range directions {
		if d.From.Here() && d.To.Here() && d.From.String() == d.To.String() {
			return fault.New(fault.Usage, "name two devices; the frames of one never arrive at itself", "%s is to send to itself", d.From)
		}
		key := d.From.String() + " to " + d.To.String()
		if d.From.Here() && sending[key] {
			return fault.New(fault.Usage, "write its streams from one port: they are spread over its CPUs", "two generators are to send from %s", key)
		}
		sending[key] = true
		if d.From.Here() && d.Schedule.Duration <= 0 {
			return fault.New(fault.Usage, "give a duration", "the schedule of %s has no end", d.From)
		}
		for _, s := range d.Schedule.Streams {
			switch {
			case seen[s.ID]:
				return fault.New(fault.Usage, "give every stream its own identifier", "two streams have the identifier %d", s.ID)
			case int(s.ID) >= tester.MaxStreams:
				return fault.New(fault.Usage, fmt.Sprintf("use identifiers below %d", tester.MaxStreams), "stream identifier %d is too large", s.ID)
			}
			seen[s.ID] = true
		}
	}
	return nil
}
