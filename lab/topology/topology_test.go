// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"weir/kernel/ethtool"
	"weir/kernel/instance"
	"weir/kernel/netns"
	"weir/kernel/sysctl"
	"weir/kernel/testutil"
	"weir/lab/link"
	"weir/lab/scenario"
	"weir/lab/traffic"
)

// join makes link number n between two nodes, with the addresses of that number.
func join(n int, a, b string) scenario.Link {
	v4 := func(host int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n / 256), byte(n % 256), byte(host)}), 30)
	}
	v6 := func(host int) netip.Prefix {
		return netip.MustParsePrefix(fmt.Sprintf("fd00:%x::%d/64", n, host))
	}
	return scenario.Link{Name: fmt.Sprintf("l%d", n), A: a, B: b, Plain: true,
		AddressA4: v4(1), AddressB4: v4(2), AddressA6: v6(1), AddressB6: v6(2)}
}

// over adds routes of both families from a node to a link's two addresses, over another link to its
// far end.
func over(cell *scenario.Cell, from string, to, via scenario.Link) {
	hop4, hop6 := via.AddressB4, via.AddressB6
	if via.B == from {
		hop4, hop6 = via.AddressA4, via.AddressA6
	}
	cell.Routes = append(cell.Routes,
		scenario.Route{From: from, To: to.AddressA4.Masked(), Via: via.Name, Hop: hop4.Addr()},
		scenario.Route{From: from, To: to.AddressA6.Masked(), Via: via.Name, Hop: hop6.Addr()})
}

func build(t *testing.T, cell *scenario.Cell) *Topology {
	t.Helper()
	testutil.NeedRoot(t)
	t.Setenv("WEIR_RUN_DIR", t.TempDir())
	lab, err := instance.New("test", instance.Run)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
		if names, _ := netns.List("weir-" + lab.ID); len(names) > 0 {
			t.Errorf("left: %v", names)
		}
	})
	begin := time.Now()
	topology, err := Build(t.Context(), lab, cell)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("up in %s", time.Since(begin))
	t.Cleanup(topology.Close)
	return topology
}

// exchange sends one line over TCP from one node to another's address and returns the answer.
func exchange(t *testing.T, from, to *netns.Namespace, address netip.Addr) {
	t.Helper()
	var listener net.Listener
	err := to.Do(func() (err error) {
		listener, err = net.Listen("tcp", net.JoinHostPort(address.String(), "0"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			_, _ = io.WriteString(conn, "from "+address.String())
			_ = conn.Close()
		}
	}()
	var conn net.Conn
	err = from.Do(func() (err error) {
		// With a concrete address DialTCP dials on this thread, inside the namespace.
		conn, err = net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(netip.AddrPortFrom(address, uint16(listener.Addr().(*net.TCPAddr).Port))))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	got, err := io.ReadAll(conn)
	if err != nil || string(got) != "from "+address.String() {
		t.Errorf("exchange with %s: %q, %v", address, got, err)
	}
}

func TestThirtyHostsAndFortyLinks(t *testing.T) {
	const hosts, links = 30, 40
	cell := &scenario.Cell{}
	for i := range hosts {
		cell.Nodes = append(cell.Nodes, scenario.Node{Name: fmt.Sprintf("h%d", i)})
	}
	for n := range links {
		l := join(n, fmt.Sprintf("h%d", n%hosts), fmt.Sprintf("h%d", (n+1+n/hosts)%hosts))
		l.Plain = n%2 == 0
		cell.Links = append(cell.Links, l)
	}
	topology := build(t, cell)
	if len(topology.Nodes) != hosts || len(topology.Cables) != links/2 || len(topology.Ends) != 2*links {
		t.Fatalf("%d nodes, %d cables, %d ends", len(topology.Nodes), len(topology.Cables), len(topology.Ends))
	}
	for n := 0; n < links; n += 8 {
		l := cell.Links[n]
		exchange(t, topology.Nodes[l.A], topology.Nodes[l.B], l.AddressB4.Addr())
		exchange(t, topology.Nodes[l.B], topology.Nodes[l.A], l.AddressA6.Addr())
	}
	features, err := ethtool.Features(topology.Nodes["h1"], "l1")
	if err != nil {
		t.Fatal(err)
	}
	if features["tx"] || features["tso"] || features["gso"] {
		t.Errorf("offloads of an emulated link's end: %v", features)
	}
}

// TestReturnPathDiffers joins two hosts by two routers, one per direction.
func TestReturnPathDiffers(t *testing.T) {
	there, thereEnd := join(0, "a", "r1"), join(1, "r1", "b")
	back, backEnd := join(2, "a", "r2"), join(3, "r2", "b")
	cell := &scenario.Cell{
		Nodes: []scenario.Node{{Name: "a"}, {Name: "r1", Router: true}, {Name: "r2", Router: true}, {Name: "b"}},
		Links: []scenario.Link{there, thereEnd, back, backEnd},
	}
	over(cell, "a", thereEnd, there)
	over(cell, "b", there, backEnd)
	over(cell, "r2", there, back)
	topology := build(t, cell)
	for _, address := range []netip.Addr{thereEnd.AddressB4.Addr(), thereEnd.AddressB6.Addr()} {
		before := forwarded(t, topology)
		exchange(t, topology.Nodes["a"], topology.Nodes["b"], address)
		after := forwarded(t, topology)
		for name, wanted := range map[string]bool{"a to r1": true, "r1 to b": true, "b to r2": true, "r2 to a": true,
			"b to r1": false, "r1 to a": false, "a to r2": false, "r2 to b": false} {
			// A connection sends at least four frames in each direction; the kernel's multicast
			// reports are fewer.
			if moved := after[name] > before[name]+3; moved != wanted {
				t.Errorf("%s: frames %s: %d, then %d", address, name, before[name], after[name])
			}
		}
	}
}

// forwarded counts the frames that every device has received, by sender and receiver.
func forwarded(t *testing.T, topology *Topology) map[string]uint64 {
	t.Helper()
	counts := map[string]uint64{}
	for i, end := range topology.Ends {
		err := topology.Nodes[end.Node].Do(func() error {
			text, err := os.ReadFile("/proc/thread-self/net/dev")
			if err != nil {
				return err
			}
			var octets, frames uint64
			for line := range strings.Lines(string(text)) {
				if name, figures, found := strings.Cut(strings.TrimSpace(line), ":"); found && name == end.Device {
					_, err = fmt.Sscan(figures, &octets, &frames)
				}
			}
			counts[topology.Ends[i^1].Node+" to "+end.Node] = frames
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return counts
}

func TestSettings(t *testing.T) {
	l := join(0, "a", "b")
	l.Plain = false
	l.Forward = link.Direction{Rate: 1e9, Delay: 100 * time.Millisecond}
	l.Reverse = link.Direction{Rate: 1e6}
	cell := &scenario.Cell{
		Nodes:  []scenario.Node{{Name: "a", Sysctls: map[string]string{"net.ipv4.tcp_sack": "0"}}, {Name: "b", Offloads: map[string]bool{"gro": false}}},
		Links:  []scenario.Link{l},
		Phases: []scenario.Phase{{Flows: []traffic.Flow{{From: "a", To: "b", ECN: true}}}},
	}
	topology := build(t, cell)
	for key, want := range map[string]string{
		"net.ipv4.tcp_sack":            "0",
		"net.ipv4.tcp_no_metrics_save": "1",
		"net.ipv4.tcp_rmem":            "4096\t131072\t50000000",
		"net.ipv4.ip_forward":          "0",
	} {
		if got, err := sysctl.Get(topology.Nodes["a"], key); err != nil || got != want {
			t.Errorf("%s = %q, %v; want %q", key, got, err, want)
		}
	}
	features, err := ethtool.Features(topology.Nodes["b"], "l0")
	if err != nil || features["gro"] {
		t.Errorf("gro of b is %v, %v; the scenario switches it off", features["gro"], err)
	}
}

func TestMachineWideSettingIsRefused(t *testing.T) {
	testutil.NeedRoot(t)
	t.Setenv("WEIR_RUN_DIR", t.TempDir())
	lab, err := instance.New("test", instance.Run)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	}()
	cell := &scenario.Cell{Nodes: []scenario.Node{{Name: "a", Sysctls: map[string]string{"net.core.netdev_budget": "1"}}}}
	if _, err := Build(t.Context(), lab, cell); err == nil {
		t.Error("a setting of the whole machine was accepted")
	}
}
