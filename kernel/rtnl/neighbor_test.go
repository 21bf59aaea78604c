// SPDX-License-Identifier: Apache-2.0

package rtnl_test

import (
	"net"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"weir/kernel/rtnl"
)

// Added entries are listed, used with the requested source address, and removed; a second removal
// is no error.
func TestRoutesAndNeighborsAreRemoved(t *testing.T) {
	left, a, _ := pair(t)
	must(t, a.AddAddress("a", netip.MustParsePrefix("192.0.2.1/24")))
	must(t, a.AddAddress("a", netip.MustParsePrefix("2001:db8::9/128")))
	must(t, a.AddAddress("lo", netip.MustParsePrefix("198.51.100.9/32")))
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 9}
	routes := []rtnl.Route{
		{To: netip.MustParsePrefix("203.0.113.1/32"), Device: "a", Source: netip.MustParseAddr("198.51.100.9"), Protocol: 119, Metric: 4194303},
		{To: netip.MustParsePrefix("2001:db8:1::1/128"), Device: "a", Source: netip.MustParseAddr("2001:db8::9"), Protocol: 119, Metric: 7},
	}
	var want []rtnl.Neighbor
	for _, r := range routes {
		must(t, a.AddRoute(r))
		must(t, a.AddNeighbor("a", r.To.Addr(), mac))
		want = append(want, rtnl.Neighbor{Device: "a", Address: r.To.Addr(), MAC: mac})
	}
	made, err := a.RoutesOf(119)
	must(t, err)
	if diff := cmp.Diff(routes, made, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
	got, err := a.Neighbors()
	must(t, err)
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("neighbours (-want +got):\n%s", diff)
	}
	must(t, left.Do(func() error {
		conn, err := net.Dial("udp", "203.0.113.1:7")
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		if from := conn.LocalAddr().(*net.UDPAddr).IP.String(); from != "198.51.100.9" {
			t.Errorf("sends from %s", from)
		}
		return nil
	}))
	for to, want := range map[string]string{"203.0.113.1": "a", "2001:db8:1::1": "a", "198.51.100.9": "lo"} {
		t.Run(to, func(t *testing.T) {
			if device, err := a.DeviceTo(netip.MustParseAddr(to)); err != nil || device != want {
				t.Errorf("%s is reached over %q, %v; want %s", to, device, err, want)
			}
		})
	}
	if device, err := a.DeviceTo(netip.MustParseAddr("203.0.113.2")); err == nil {
		t.Errorf("what has no route is reached over %s", device)
	}
	for range 2 {
		for _, r := range routes {
			must(t, a.RemoveRoute(r))
			must(t, a.RemoveNeighbor("a", r.To.Addr()))
		}
	}
	if got, err := a.Neighbors(); err != nil || len(got) > 0 {
		t.Errorf("left: %v, %v", got, err)
	}
	if overlap, err := a.Overlap(netip.MustParsePrefix("203.0.113.1/32")); err != nil || overlap != "" {
		t.Errorf("left: %s, %v", overlap, err)
	}
	must(t, a.RemoveRoute(rtnl.Route{To: routes[0].To, Device: "nosuch"}))
	must(t, a.RemoveNeighbor("nosuch", routes[0].To.Addr()))
}
