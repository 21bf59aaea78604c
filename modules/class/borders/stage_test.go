// SPDX-License-Identifier: Apache-2.0

package borders

import (
	"encoding/binary"
	"errors"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/core/module"
	"weir/core/policy"
	"weir/core/selector"
	"weir/kernel/netns"
	"weir/kernel/sysctl"
	"weir/kernel/testutil"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func parse(text string) (*policy.Policy, error) {
	language, err := policy.NewLanguage(selector.Language(), []policy.Grammar{grammar()}, nil)
	if err != nil {
		return nil, err
	}
	return language.Parse("policy.yaml", []byte("version: 1\nscopes: {}\nborders:\n"+text))
}

// stage is a router between two networks: beyond, behind its device eth0, and inside, behind eth1.
type stage struct {
	beyond, router, inside *netns.Namespace
	plane                  *hostPlane
}

// Addresses of hosts: beyond is 192.0.2.2, inside is 10.20.0.2, with IPv6 equivalents.
const (
	beyond4, beyond6 = "192.0.2.2", "2001:db8:2::2"
	inside4, inside6 = "10.20.0.2", "2001:db8:20::2"
)

func newStage(t *testing.T) *stage {
	t.Helper()
	testutil.NeedRoot(t)
	s := &stage{beyond: testutil.Namespace(t, "beyond"), router: testutil.Namespace(t, "router"), inside: testutil.Namespace(t, "inside")}
	for dev, side := range map[string]struct {
		ns                    *netns.Namespace
		four, six, own4, own6 string
	}{
		"eth0": {s.beyond, "192.0.2.1", "2001:db8:2::1", beyond4, beyond6},
		"eth1": {s.inside, "10.20.0.1", "2001:db8:20::1", inside4, inside6},
	} {
		ip(t, "-n", s.router.Name, "link", "add", dev, "type", "veth", "peer", "eth0", "netns", side.ns.Name)
		ip(t, "-n", s.router.Name, "link", "set", dev, "up")
		ip(t, "-n", side.ns.Name, "link", "set", "eth0", "up")
		ip(t, "-n", s.router.Name, "address", "add", side.four+"/24", "dev", dev)
		ip(t, "-n", s.router.Name, "address", "add", side.six+"/64", "dev", dev, "nodad")
		ip(t, "-n", side.ns.Name, "address", "add", side.own4+"/24", "dev", "eth0")
		ip(t, "-n", side.ns.Name, "address", "add", side.own6+"/64", "dev", "eth0", "nodad")
		ip(t, "-n", side.ns.Name, "route", "add", "default", "via", side.four)
		ip(t, "-n", side.ns.Name, "route", "add", "default", "via", side.six)
	}
	must(t, sysctl.Set(s.router, "net.ipv4.ip_forward", "1"))
	must(t, sysctl.Set(s.router, "net.ipv6.conf.all.forwarding", "1"))
	s.plane = planeAt(testutil.BPFFS(t))
	t.Cleanup(func() {
		if _, err := s.release(); err != nil {
			t.Error(err)
		}
		if left, _ := filepath.Glob(filepath.Join(s.plane.host.Devices, "*")); len(left) > 0 {
			t.Errorf("%q are left behind", left)
		}
	})
	return s
}

func planeAt(pins string) *hostPlane {
	return &hostPlane{module.Host{Pins: filepath.Join(pins, moduleName), Devices: filepath.Join(pins, "devices")}}
}

func ip(t *testing.T, arguments ...string) {
	t.Helper()
	if out, err := exec.Command("ip", arguments...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v\n%s", strings.Join(arguments, " "), err, out)
	}
}

func (s *stage) state(t *testing.T, text string) module.State {
	t.Helper()
	if text == "" {
		return module.State{}
	}
	p, err := parse(text)
	must(t, err)
	return module.State{Host: p.Host}
}

func (s *stage) apply(t *testing.T, have module.State, text string) module.State {
	t.Helper()
	want := s.state(t, text)
	must(t, s.router.Do(func() error {
		if err := s.plane.Ready(want); err != nil {
			return err
		}
		_, err := s.plane.Apply(have, want)
		return err
	}))
	if s.inPlace(t, want) == want.Empty() {
		t.Fatal("applied, and not in place")
	}
	return want
}

func (s *stage) inPlace(t *testing.T, have module.State) (in bool) {
	t.Helper()
	must(t, s.router.Do(func() (err error) {
		in, err = s.plane.InPlace(have)
		return err
	}))
	return in
}

func (s *stage) release() (released bool, err error) {
	err = s.router.Do(func() (err error) {
		released, err = s.plane.Release()
		return err
	})
	return released, err
}

// counts returns the reported counters by direction: packets, marked, translated.
func (s *stage) counts(t *testing.T, have module.State) map[string][3]uint64 {
	t.Helper()
	all := map[string][3]uint64{}
	must(t, s.router.Do(func() error {
		report, err := s.plane.Report(have)
		for _, row := range report.Rows {
			if row.Values == nil {
				t.Errorf("nothing is known of %s %s", row.Scope, row.Part)
				continue
			}
			all[row.Part] = [3]uint64{row.Values[0].Count, row.Values[2].Count, row.Values[3].Count}
			if row.Values[4].Count != 0 {
				t.Errorf("%s: %d packets could not be written", row.Part, row.Values[4].Count)
			}
		}
		return err
	}))
	return all
}

// taker reads the packets that arrive at a host's device.
func taker(t *testing.T, ns *netns.Namespace) (fd int) {
	t.Helper()
	must(t, ns.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK, int(binary.BigEndian.Uint16([]byte{0, unix.ETH_P_ALL})<<8))
		return err
	}))
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// marker is at the start of the payload of each packet.
const marker = "border"

// send sends a datagram of a size in bytes with a type of service and IPv4 options.
func send(t *testing.T, ns *netns.Namespace, to string, tos byte, octets int, options []byte) {
	t.Helper()
	family, level, option := unix.AF_INET, unix.IPPROTO_IP, unix.IP_TOS
	var address unix.Sockaddr
	if parsed := net.ParseIP(to); parsed.To4() != nil {
		address = &unix.SockaddrInet4{Port: 9, Addr: [4]byte(parsed.To4())}
	} else {
		family, level, option = unix.AF_INET6, unix.IPPROTO_IPV6, unix.IPV6_TCLASS
		address = &unix.SockaddrInet6{Port: 9, Addr: [16]byte(parsed.To16())}
	}
	var fd int
	must(t, ns.Do(func() (err error) {
		fd, err = unix.Socket(family, unix.SOCK_DGRAM, 0)
		return err
	}))
	defer func() { _ = unix.Close(fd) }()
	must(t, unix.SetsockoptInt(fd, level, option, int(tos)))
	if options != nil {
		must(t, unix.SetsockoptString(fd, unix.IPPROTO_IP, unix.IP_OPTIONS, string(options)))
	}
	must(t, unix.Sendto(fd, append([]byte(marker), make([]byte, octets)...), 0, address))
}

// arrived waits for a number of packets with test datagrams or fragments and returns their types of
// service. The checksum of every IPv4 header must be correct.
func arrived(t *testing.T, fd, packets int) (all []byte) {
	t.Helper()
	buffer := make([]byte, 1<<16)
	for deadline := time.Now().Add(20 * time.Second); len(all) < packets; {
		n, from, err := unix.Recvfrom(fd, buffer, 0)
		if errors.Is(err, unix.EAGAIN) {
			if time.Now().After(deadline) {
				t.Fatalf("%d of %d packets arrived", len(all), packets)
			}
			time.Sleep(time.Millisecond)
			continue
		}
		must(t, err)
		if from.(*unix.SockaddrLinklayer).Pkttype == unix.PACKET_OUTGOING || n < 20 {
			continue
		}
		b := buffer[:n]
		switch {
		case b[0]>>4 == 4 && b[9] == unix.IPPROTO_UDP:
			if sum := onesComplement(b[:int(b[0]&15)*4]); sum != 0xffff {
				t.Errorf("an IPv4 header's words add up to %#x, want 0xffff: % x", sum, b[:20])
			}
			all = append(all, b[1])
		case b[0]>>4 == 6 && (b[6] == unix.IPPROTO_UDP || b[6] == 44):
			all = append(all, b[0]<<4|b[1]>>4)
		}
	}
	return all
}
