// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/core/module"
	"weir/core/policy"
	"weir/kernel/ethtool"
	"weir/kernel/netns"
	"weir/kernel/probe"
	"weir/kernel/sysctl"
	"weir/kernel/testutil"
	"weir/modules/offload/plan"
	"weir/modules/offload/xdp"
)

// Traffic of hosts in other namespaces of this machine arrives whole, with and without checksum
// offload of the veth. XDP forwards packets with finished checksums.
func TestPacketsOfSendersOnThisHostArriveWhole(t *testing.T) {
	testutil.Need(t, "XDP on veth", probe.XDPNative())
	router := testutil.Namespace(t, "router")
	hosts := [2]*netns.Namespace{testutil.Namespace(t, "left"), testutil.Namespace(t, "right")}
	ip := func(ns *netns.Namespace, line string, args ...any) {
		t.Helper()
		line = fmt.Sprintf(line, args...)
		if out, err := exec.Command("ip", append([]string{"-n", ns.Name}, strings.Fields(line)...)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v\n%s", line, err, out)
		}
	}
	for key, value := range map[string]string{"net.ipv4.conf.all.forwarding": "1", "net.ipv6.conf.all.forwarding": "1", "net.ipv4.conf.all.rp_filter": "0", "net.ipv4.conf.default.rp_filter": "0"} {
		if err := sysctl.Set(router, key, value); err != nil {
			t.Fatal(err)
		}
	}
	for i, h := range hosts {
		ip(router, "link add p%d address 02:00:00:00:00:0%d type veth peer name e address 02:00:00:00:01:0%d netns %s", i, i, i, h.Name)
		for _, end := range []struct {
			ns   *netns.Namespace
			dev  string
			last int
		}{{router, fmt.Sprintf("p%d", i), 1}, {h, "e", 2}} {
			ip(end.ns, "link set %s up", end.dev)
			ip(end.ns, "addr add 10.%d.0.%d/24 dev %s", 1+i, end.last, end.dev)
			ip(end.ns, "-6 addr add 2001:db8:%d::%d/64 dev %s nodad", 1+i, end.last, end.dev)
		}
		ip(h, "route add default via 10.%d.0.1", 1+i)
		ip(h, "-6 route add default via 2001:db8:%d::1", 1+i)
		ip(router, "neigh add 10.%d.0.2 lladdr 02:00:00:00:01:0%d dev p%d nud permanent", 1+i, i, i)
		ip(router, "neigh add 2001:db8:%d::2 lladdr 02:00:00:00:01:0%d dev p%d nud permanent", 1+i, i, i)
		if err := ethtool.SetFeatures(h, "e", map[string]bool{"gro": true}); err != nil { // NAPI, for redirected frames
			t.Fatal(err)
		}
	}
	treatment := &Treatment{From: []string{"p0", "p1"}, Multipath: string(plan.Split), IPv4: true, IPv6: true}
	state := module.State{Host: []policy.Item{{Module: moduleName, Name: "offload", Treatment: treatment}}}
	plane := Module{Namespace: router}.Plane(module.Host{Pins: filepath.Join(testutil.BPFFS(t), "offload")}).(*hostPlane)
	if _, err := plane.Apply(module.State{}, state); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if _, err := plane.Release(); err != nil {
			t.Error(err)
		}
	}()
	for _, finished := range []bool{false, true} {
		for _, h := range hosts {
			if err := ethtool.SetFeatures(h, "e", map[string]bool{"tx": !finished, "tso": false}); err != nil {
				t.Fatal(err)
			}
		}
		for _, to := range []string{"10.2.0.2", "2001:db8:2::2"} {
			before := countsOf(t, plane)
			transfer(t, hosts, netip.AddrPortFrom(netip.MustParseAddr(to), 7))
			after := countsOf(t, plane)
			last := len(after.Left) - 1
			unfinished, forwarded := after.Left[last].Packets-before.Left[last].Packets, after.Forwarded.Packets-before.Forwarded.Packets
			t.Logf("to %s, finished %t: forwarded %d, left for their checksum %d", to, finished, forwarded, unfinished)
			if finished && forwarded == 0 {
				t.Errorf("to %s: nothing that is finished was forwarded", to)
			}
			if !finished && unfinished == 0 {
				t.Errorf("to %s: nothing was unfinished: the case is none", to)
			}
		}
	}
}

func countsOf(t *testing.T, p *hostPlane) xdp.Counts {
	t.Helper()
	pinned, err := xdp.Open(p.host.Pins)
	if err != nil {
		t.Fatal(err)
	}
	defer pinned.Close()
	c, err := pinned.Counts()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// transfer sends bytes by TCP and datagrams by UDP to the other host, which echoes them.
func transfer(t *testing.T, hosts [2]*netns.Namespace, to netip.AddrPort) {
	t.Helper()
	var listener net.Listener
	var echo net.PacketConn
	err := hosts[1].Do(func() (err error) {
		if listener, err = net.Listen("tcp", to.String()); err != nil {
			return err
		}
		echo, err = net.ListenPacket("udp", to.String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close(); _ = echo.Close() }()
	go func() {
		if c, err := listener.Accept(); err == nil {
			_, _ = io.Copy(c, c)
			_ = c.Close()
		}
	}()
	go func() {
		b := make([]byte, 2000)
		for {
			n, from, err := echo.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = echo.WriteTo(b[:n], from)
		}
	}()
	for _, network := range []string{"tcp", "udp"} {
		var c net.Conn
		err := hosts[0].Do(func() (err error) { c, err = net.DialTimeout(network, to.String(), 20*time.Second); return err })
		if err != nil {
			t.Fatalf("%s to %s: %v", network, to, err)
		}
		if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		sent, got := bytes.Repeat([]byte("weir"), 200), make([]byte, 800)
		for range 8 {
			if _, err := c.Write(sent); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, sent) {
				t.Fatalf("%s to %s: what comes back is not what was sent: %v", network, to, err)
			}
		}
		_ = c.Close()
	}
}
