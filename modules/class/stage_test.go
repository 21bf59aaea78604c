// SPDX-License-Identifier: Apache-2.0

package class

import (
	"encoding/binary"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/core/module"
	"weir/core/policy"
	"weir/core/selector"
	"weir/internal/child"
	"weir/kernel/cgroup"
	"weir/kernel/netns"
	"weir/kernel/testutil"
)

func TestMain(m *testing.M) {
	child.Main(child.Parts{cgroup.SocketsPart: cgroup.ServeSockets})
	os.Exit(m.Run())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// stage is a host (a namespace and a cgroup tree), another host behind a device, and a data plane.
type stage struct {
	here, there *netns.Namespace
	root        cgroup.Cgroup
	plane       *hostPlane
	arriving    int // packet socket at the other host's device
}

const (
	hereAddress, thereAddress   = "10.9.0.1", "10.9.0.2"
	hereAddress6, thereAddress6 = "2001:db8:9::1", "2001:db8:9::2"
)

func newStage(t *testing.T) *stage {
	t.Helper()
	testutil.NeedRoot(t)
	s := &stage{here: testutil.Namespace(t, "here"), there: testutil.Namespace(t, "there"), root: testutil.Cgroup(t)}
	ip(t, "-n", s.here.Name, "link", "add", "eth0", "type", "veth", "peer", "eth0", "netns", s.there.Name)
	for ns, addresses := range map[*netns.Namespace][2]string{s.here: {hereAddress, hereAddress6}, s.there: {thereAddress, thereAddress6}} {
		ip(t, "-n", ns.Name, "link", "set", "eth0", "up")
		ip(t, "-n", ns.Name, "address", "add", addresses[0]+"/24", "dev", "eth0")
		ip(t, "-n", ns.Name, "address", "add", addresses[1]+"/64", "dev", "eth0", "nodad")
	}
	pins := testutil.BPFFS(t)
	s.plane = &hostPlane{module.Host{Pins: filepath.Join(pins, moduleName), Devices: filepath.Join(pins, "devices"), CgroupRoot: s.root.Path}}
	t.Cleanup(func() {
		if _, err := s.release(); err != nil {
			t.Error(err)
		}
		for _, dir := range []string{s.plane.host.Pins, s.plane.host.Devices} {
			if _, err := os.Stat(dir); err == nil {
				t.Errorf("%s is left behind", dir)
			}
		}
	})
	must(t, s.there.Do(func() (err error) {
		s.arriving, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK, int(swap(unix.ETH_P_ALL)))
		return err
	}))
	t.Cleanup(func() { _ = unix.Close(s.arriving) })
	return s
}

func swap(n uint16) uint16 { return n<<8 | n>>8 }

func ip(t *testing.T, arguments ...string) {
	t.Helper()
	if out, err := exec.Command("ip", arguments...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v\n%s", strings.Join(arguments, " "), err, out)
	}
}

func (s *stage) release() (released bool, err error) {
	err = s.here.Do(func() (err error) {
		released, err = s.plane.Release()
		return err
	})
	return released, err
}

// state binds a policy's scopes on this host.
func (s *stage) state(t *testing.T, text string) (state module.State) {
	t.Helper()
	p, err := parse(text)
	must(t, err)
	must(t, s.here.Do(func() error {
		look := &selector.Host{CgroupRoot: s.root.Path}
		for i, scope := range p.Scopes {
			bound, err := look.Bind(scope.Selector)
			if err != nil {
				return err
			}
			if treatmentOf(scope) != nil {
				state.Scopes = append(state.Scopes, module.Bound{Scope: scope, Index: i, Binding: bound, Treatment: scope.Treatments[moduleName]})
			}
		}
		return nil
	}))
	return state
}

func parse(text string) (*policy.Policy, error) {
	language, err := policy.NewLanguage(selector.Language(), []policy.Grammar{grammar()}, nil)
	if err != nil {
		return nil, err
	}
	return language.Parse("policy.yaml", []byte("version: 1\nscopes:\n"+text))
}

func (s *stage) apply(t *testing.T, have module.State, text string) module.State {
	t.Helper()
	want := s.state(t, text)
	must(t, s.here.Do(func() error {
		if err := s.plane.Ready(want); err != nil {
			return err
		}
		_, err := s.plane.Apply(have, want)
		return err
	}))
	if !s.inPlace(t, want) {
		t.Fatal("applied, and not in place")
	}
	return want
}

func (s *stage) inPlace(t *testing.T, have module.State) (in bool) {
	t.Helper()
	must(t, s.here.Do(func() (err error) {
		in, err = s.plane.InPlace(have)
		return err
	}))
	return in
}

// counts returns the reported packets and marked packets.
func (s *stage) counts(t *testing.T, have module.State) map[string][2]uint64 {
	t.Helper()
	report, err := s.plane.Report(have)
	must(t, err)
	all := map[string][2]uint64{}
	for _, row := range report.Rows {
		all[row.Scope] = [2]uint64{row.Values[0].Count, row.Values[2].Count}
		if row.Values[3].Count != 0 {
			t.Errorf("%s: %d packets could not be written", row.Scope, row.Values[3].Count)
		}
	}
	return all
}

// group creates a cgroup of the stage if it is missing.
func (s *stage) group(t *testing.T, name string) cgroup.Cgroup {
	t.Helper()
	path := filepath.Join(s.root.Path, name)
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	return cgroup.Cgroup{Path: path}
}

// send sends datagrams from a cgroup with a type of service set by the sender.
func (s *stage) send(t *testing.T, group, to string, tos, datagrams int) {
	t.Helper()
	sockets, err := s.group(t, group).OpenSockets(t.Context())
	must(t, err)
	defer func() { _ = sockets.Close() }()
	family, level, option := unix.AF_INET, unix.IPPROTO_IP, unix.IP_TOS
	var address unix.Sockaddr
	if parsed := net.ParseIP(to); parsed.To4() != nil {
		address = &unix.SockaddrInet4{Port: 9, Addr: [4]byte(parsed.To4())}
	} else {
		family, level, option = unix.AF_INET6, unix.IPPROTO_IPV6, unix.IPV6_TCLASS
		address = &unix.SockaddrInet6{Port: 9, Addr: [16]byte(parsed.To16())}
	}
	socket, err := sockets.Socket(s.here, family, unix.SOCK_DGRAM)
	must(t, err)
	defer func() { _ = unix.Close(socket) }()
	must(t, unix.SetsockoptInt(socket, level, option, tos))
	for range datagrams {
		if err := unix.Sendto(socket, []byte("class"), 0, address); err != nil && !errors.Is(err, unix.ECONNREFUSED) {
			t.Fatal(err)
		}
	}
}

// arrived waits for a number of packets of a transport protocol at the other host's device and
// counts them by type of service. The checksum of every IPv4 header must be correct.
func (s *stage) arrived(t *testing.T, protocol byte, packets int) map[byte]int {
	t.Helper()
	got, buffer := map[byte]int{}, make([]byte, 1<<17)
	for seen, deadline := 0, time.Now().Add(20*time.Second); seen < packets; {
		n, from, err := unix.Recvfrom(s.arriving, buffer, 0)
		if errors.Is(err, unix.EAGAIN) {
			if time.Now().After(deadline) {
				t.Fatalf("%d of %d packets arrived", seen, packets)
			}
			time.Sleep(time.Millisecond)
			continue
		}
		must(t, err)
		if link := from.(*unix.SockaddrLinklayer); link.Pkttype == unix.PACKET_OUTGOING || n < 20 {
			continue
		}
		tos, of, ok := look(t, buffer[:n])
		if ok && of == protocol {
			got[tos]++
			seen++
		}
	}
	return got
}

// look parses an IP header.
func look(t *testing.T, b []byte) (tos, protocol byte, ok bool) {
	t.Helper()
	switch b[0] >> 4 {
	case 4:
		var sum uint32
		for i := 0; i < int(b[0]&15)*4; i += 2 {
			sum += uint32(binary.BigEndian.Uint16(b[i:]))
		}
		if sum = sum>>16 + sum&0xffff; sum != 0xffff {
			t.Errorf("an IPv4 header's words add up to %#x, want 0xffff: % x", sum, b[:20])
		}
		return b[1], b[9], true
	case 6:
		return b[0]<<4 | b[1]>>4, b[6], true
	}
	return 0, 0, false
}
