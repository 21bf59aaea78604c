// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"net/netip"
	"os/exec"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/core/match"
	"weir/internal/direction"
	"weir/kernel/netns"
	"weir/kernel/probe"
	"weir/kernel/rtnl"
	"weir/kernel/testutil"
)

// Packets from any source are charged once: to the device's shaper and to the matching prefix.
func TestPacketsAreChargedOnceFromAnySource(t *testing.T) {
	testutil.Need(t, "fq", probe.Qdisc("fq"))
	const n, wire = 50, 1000
	// send sends n packets of wire bytes out of eth0, and returns how many arrived.
	for _, test := range []struct {
		name string
		send func(s *stage) int
	}{
		{"a socket", func(s *stage) int {
			got, _ := s.transfer(s.here, s.there, s.address(1), n, wire)
			return got
		}},
		{"a datagram in fragments", func(s *stage) int {
			got, _ := s.transfer(s.here, s.there, s.address(1), 1, n*wire)
			return got * n
		}},
		{"a packet socket", func(s *stage) int { return s.frames(n, wire) }},
		{"a router", func(s *stage) int {
			behind := testutil.Namespace(s.t, "behind")
			s.ip("-n", s.here.Name, "link", "add", "inner", "type", "veth", "peer", "name", "outer", "netns", behind.Name)
			s.ip("-n", s.here.Name, "address", "add", "10.8.0.1/24", "dev", "inner")
			s.ip("-n", s.here.Name, "link", "set", "inner", "up")
			s.ip("-n", behind.Name, "address", "add", "10.8.0.2/24", "dev", "outer")
			s.ip("-n", behind.Name, "link", "set", "outer", "up")
			s.ip("-n", behind.Name, "route", "add", "default", "via", "10.8.0.1")
			s.ip("-n", s.there.Name, "route", "add", "10.8.0.0/24", "via", s.address(0).String())
			s.ip("netns", "exec", s.here.Name, "sysctl", "-qw", "net.ipv4.ip_forward=1")
			got, _ := s.transfer(behind, s.there, s.address(1), n, wire)
			return got
		}},
		{"a bridge", func(s *stage) int {
			behind := testutil.Namespace(s.t, "behind")
			testutil.Need(s.t, "bridge", exec.Command("ip", "-n", s.here.Name, "link", "add", "bridge0", "type", "bridge").Run())
			s.ip("-n", s.here.Name, "link", "add", "inner", "type", "veth", "peer", "name", "outer", "netns", behind.Name)
			for _, port := range []string{"inner", "eth0"} {
				s.ip("-n", s.here.Name, "link", "set", port, "master", "bridge0", "up")
			}
			s.ip("-n", s.here.Name, "link", "set", "bridge0", "up")
			s.ip("-n", behind.Name, "address", "add", "10.9.0.3/24", "dev", "outer")
			s.ip("-n", behind.Name, "link", "set", "outer", "up")
			got, _ := s.transfer(behind, s.there, s.address(1), n, wire)
			return got
		}},
		{"a VLAN device", func(s *stage) int {
			for i, ns := range []string{s.here.Name, s.there.Name} {
				testutil.Need(s.t, "vlan", exec.Command("ip", "-n", ns, "link", "add", "link", "eth0", "name", "vlan5", "type", "vlan", "id", "5").Run())
				s.ip("-n", ns, "address", "add", s.at(5, i).String()+"/24", "dev", "vlan5")
				s.ip("-n", ns, "link", "set", "vlan5", "up")
			}
			got, _ := s.transfer(s.here, s.there, s.at(5, 1), n, wire)
			return got
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newStage(t)
			shaper, prefix := s.shaper(direction.Egress, 10*time.Second), s.shaper(direction.Egress, 10*time.Second)
			prefix.Device, prefix.Index = "", 6
			work := Work{Shapers: []Shaper{shaper, prefix}, Assignments: match.Assignments{match.OfPrefix(netip.MustParsePrefix("10.0.0.0/8")): 6}}
			s.do(func() error { return s.host.Apply(nil, work) })
			if got := test.send(s); got != n {
				t.Errorf("%d of %d packets arrived", got, n)
			}
			for by, l := range map[string]Shaper{"device": shaper, "prefix": prefix} {
				const others = 5000 // octets of neighbour discovery and of multicast reports
				if c := s.counters(l); c.Octets < n*wire || c.Octets > n*(wire+4)+others || c.Early+c.Dropped != 0 {
					t.Errorf("by %s: charged %d bytes, want %d packets of %d bytes: %+v", by, c.Octets, n, wire, c)
				}
			}
		})
	}
}

// frames sends frames by a packet socket, and returns how many arrived at the other end.
func (s *stage) frames(n, wire int) int {
	s.t.Helper()
	return s.sendFrames(s.here, s.there, n, datagram(netip.AddrPortFrom(s.address(0), 7), netip.AddrPortFrom(s.address(1), 7), wire))
}

// sendFrames sends copies of a frame from one end to the other, and returns how many arrived.
func (s *stage) sendFrames(from, to *netns.Namespace, n int, frame []byte) int {
	s.t.Helper()
	devices := map[*netns.Namespace]rtnl.Device{}
	for _, ns := range []*netns.Namespace{from, to} {
		conn, err := rtnl.Open(ns)
		if err != nil {
			s.t.Fatal(err)
		}
		defer conn.Close()
		if devices[ns], err = conn.Device("eth0"); err != nil {
			s.t.Fatal(err)
		}
	}
	frame = append(slices.Clone([]byte(devices[to].MAC)), frame[6:]...)
	conn, err := rtnl.Open(to)
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	arrived := func() int {
		traffic, err := conn.Traffic("eth0")
		if err != nil {
			s.t.Fatal(err)
		}
		return int(traffic.ReceivedPackets)
	}
	before := arrived()
	err = from.Do(func() error {
		socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(socket) }()
		for range n {
			if err := unix.Sendto(socket, frame, 0, &unix.SockaddrLinklayer{Ifindex: devices[from].Index}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	testutil.Eventually(s.t, 10*time.Second, "the frames arrive", func() bool { return arrived()-before >= n })
	return min(n, arrived()-before)
}
