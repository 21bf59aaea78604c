// SPDX-License-Identifier: Apache-2.0

package rtnl_test

import (
	"net"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/kernel/netns"
	"weir/kernel/rtnl"
	"weir/kernel/testutil"
)

// pair makes two namespaces joined by the veth pair a-b, both ends up.
func pair(t *testing.T) (*netns.Namespace, *rtnl.Conn, *rtnl.Conn) {
	t.Helper()
	left, right := testutil.Namespace(t, "left"), testutil.Namespace(t, "right")
	a, b := open(t, left), open(t, right)
	must(t, a.AddVeth("a", right, "b", 0))
	must(t, a.SetUp("a"))
	must(t, b.SetUp("b"))
	return left, a, b
}

func open(t *testing.T, ns *netns.Namespace) *rtnl.Conn {
	t.Helper()
	conn, err := rtnl.Open(ns)
	must(t, err)
	t.Cleanup(conn.Close)
	return conn
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestVethConnectsTwoNamespaces(t *testing.T) {
	left, right := testutil.Namespace(t, "left"), testutil.Namespace(t, "right")
	a, b := open(t, left), open(t, right)
	must(t, a.AddVeth("a", right, "b", 9000))
	for _, end := range []struct {
		conn *rtnl.Conn
		name string
	}{{a, "a"}, {b, "b"}} {
		device, err := end.conn.Device(end.name)
		must(t, err)
		if device.MTU != 9000 || device.Up || device.Running || len(device.MAC) != 6 || device.Index < 2 {
			t.Errorf("device %+v: want MTU 9000, down, with an address", device)
		}
	}
	must(t, a.SetUp("a"))
	must(t, b.SetUp("b"))
	if device, err := b.Device("b"); err != nil || !device.Up || !device.Running {
		t.Errorf("after both are up: %+v, %v", device, err)
	}
	must(t, b.SetDown("b"))
	if device, err := a.Device("a"); err != nil || !device.Up || device.Running {
		t.Errorf("with the other end down: %+v, %v; want up without carrier", device, err)
	}
	must(t, a.SetMTU("a", 1280))
	if device, err := a.Device("a"); err != nil || device.MTU != 1280 {
		t.Errorf("MTU %d, %v; want 1280", device.MTU, err)
	}
	must(t, a.Delete("a"))
	devices, err := b.Devices()
	must(t, err)
	for _, device := range devices {
		if device.Name == "b" {
			t.Error("b outlived its other end")
		}
	}
}

func TestErrorsNameTheDevice(t *testing.T) {
	conn := open(t, testutil.Namespace(t, "empty"))
	if err := conn.SetUp("nowhere"); err == nil || err.Error() != "set up device nowhere: Link not found" {
		t.Errorf("set up: %v", err)
	}
	if _, err := conn.Device("nowhere"); err == nil {
		t.Error("found a device that is not there")
	}
	if err := conn.AddRoute(rtnl.Route{}); err == nil {
		t.Error("accepted a route to nowhere")
	}
}

func TestRoutesAndAddressesCarryTraffic(t *testing.T) {
	left, a, b := pair(t)
	must(t, a.AddAddress("a", netip.MustParsePrefix("192.0.2.1/24")))
	must(t, a.AddAddress("a", netip.MustParsePrefix("2001:db8::1/64")))
	must(t, b.AddAddress("b", netip.MustParsePrefix("192.0.2.2/24")))
	device, err := b.Device("b")
	must(t, err)
	must(t, a.AddNeighbor("a", netip.MustParseAddr("192.0.2.2"), device.MAC))
	must(t, a.AddNeighbor("a", netip.MustParseAddr("2001:db8::2"), device.MAC))
	must(t, a.AddRoute(rtnl.Route{Via: netip.MustParseAddr("192.0.2.2")}))
	must(t, a.AddRoute(rtnl.Route{
		To: netip.MustParsePrefix("2001:db8:1::/48"), Via: netip.MustParseAddr("2001:db8::2"),
		Device: "a", ECN: true, Congestion: "reno", InitCwnd: 20,
	}))
	must(t, a.AddRoute(rtnl.Route{To: netip.MustParsePrefix("198.51.100.0/24"), Device: "a"}))
	if err := a.AddRoute(rtnl.Route{Via: netip.MustParseAddr("192.0.2.2")}); err == nil {
		t.Error("accepted a second default route")
	}

	names, err := a.DefaultRouteDevices()
	must(t, err)
	if diff := cmp.Diff([]string{"a"}, names); diff != "" {
		t.Errorf("devices of default routes (-want +got):\n%s", diff)
	}
	names, err = b.DefaultRouteDevices()
	must(t, err)
	if len(names) != 0 {
		t.Errorf("devices of default routes without one: %v", names)
	}

	// A datagram to an address behind the default route leaves through it, and IPv6 is usable at
	// once.
	must(t, left.Do(func() error {
		for _, to := range []string{"203.0.113.9:7", "[2001:db8:1::9]:7"} {
			conn, err := net.Dial("udp", to)
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close() }()
			if _, err := conn.Write([]byte("x")); err != nil {
				return err
			}
		}
		return nil
	}))
}

func TestRouteAttributesReachTheKernel(t *testing.T) {
	ip := testutil.Command(t, "ip")
	left, a, _ := pair(t)
	must(t, a.AddAddress("a", netip.MustParsePrefix("192.0.2.1/24")))
	must(t, a.AddRoute(rtnl.Route{
		To: netip.MustParsePrefix("198.51.100.0/24"), Via: netip.MustParseAddr("192.0.2.2"),
		ECN: true, Congestion: "reno", InitCwnd: 20,
	}))
	got := output(t, ip, "-n", left.Name, "route", "show", "198.51.100.0/24")
	want := "198.51.100.0/24 via 192.0.2.2 dev a initcwnd 20 features ecn congctl reno"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ip route show (-want +got):\n%s", diff)
	}
}

func TestConnStaysInItsNamespace(t *testing.T) {
	_, a, _ := pair(t)
	found := make(chan error)
	for range 8 {
		go func() {
			_, err := a.Device("a")
			found <- err
		}()
	}
	for range 8 {
		must(t, <-found)
	}
}
