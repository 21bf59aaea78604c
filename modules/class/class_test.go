// SPDX-License-Identifier: Apache-2.0

package class

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"weir/internal/dscp"

	"golang.org/x/sys/unix"

	"weir/core/module"
	"weir/kernel/device"
	"weir/kernel/netns"
	"weir/kernel/sysctl"
	"weir/kernel/testutil"
)

const le, ef = byte(dscp.LowEffort) << 2, byte(dscp.Expedited) << 2

// Arriving packets keep only the two ECN bits of the sender.
func TestPacketsAreMarkedWithTheirScopesClass(t *testing.T) {
	s := newStage(t)
	s.group(t, "bulk/inner")
	s.group(t, "one")
	have := s.apply(t, module.State{}, "  bulk: {cgroup: /bulk, class: lbe}\n  inner: {cgroup: /bulk/inner, parent: bulk, class: ef}\n"+
		"  members: {class: AF21}\n  one: {cgroup: /one, parent: members}\n  host: {host: true, class: cs2}\n")
	for _, test := range []struct {
		description, group, to string
		tos                    int
		want                   byte
	}{
		{"IPv4", "bulk", thereAddress, 0, le},
		{"IPv4 with a class of its own and ECN", "bulk", thereAddress, 0xb8 | 2, le | 2},
		{"IPv6", "bulk", thereAddress6, 0, le},
		{"IPv6 with a class of its own and ECN", "bulk", thereAddress6, 0x28 | 1, le | 1},
		{"a child decides", "bulk/inner", thereAddress, 0, ef},
		{"below a scope", "bulk/other", thereAddress6, 0, le},
		{"a name of a DSCP", "one", thereAddress, 0, 18 << 2},
		{"the whole host decides last", "elsewhere", thereAddress6, 0, 16 << 2},
	} {
		t.Run(test.description, func(t *testing.T) {
			s.send(t, test.group, test.to, test.tos, 3)
			if got := s.arrived(t, unix.IPPROTO_UDP, 3); !maps.Equal(got, map[byte]int{test.want: 3}) {
				t.Errorf("datagrams arrived by type of service: %v, want %#x", got, test.want)
			}
		})
	}
	if got := s.counts(t, have)["inner"]; got != [2]uint64{3, 3} {
		t.Errorf("of inner %d packets were seen and %d marked, want 3 and 3", got[0], got[1])
	}
}

// A packet with the right class is counted, and not written.
func TestWhatIsMarkedAlreadyIsLeftAlone(t *testing.T) {
	s := newStage(t)
	s.group(t, "bulk")
	have := s.apply(t, module.State{}, "  bulk: {cgroup: /bulk, class: lbe}\n")
	s.send(t, "bulk", thereAddress, int(le), 2)
	s.send(t, "bulk", thereAddress6, 0, 3)
	if got := s.arrived(t, unix.IPPROTO_UDP, 5); !maps.Equal(got, map[byte]int{le: 5}) {
		t.Errorf("datagrams arrived by type of service: %v", got)
	}
	if got := s.counts(t, have)["bulk"]; got != [2]uint64{5, 3} {
		t.Errorf("%d packets were seen and %d marked, want 5 and 3", got[0], got[1])
	}
}

// In shadow a scope counts the hypothetical effect, and the next scope takes effect.
func TestShadowMarksNothing(t *testing.T) {
	s := newStage(t)
	s.group(t, "bulk/inner")
	have := s.apply(t, module.State{}, "  bulk: {cgroup: /bulk, class: ef}\n  inner: {cgroup: /bulk/inner, parent: bulk, class: lbe, shadow: true}\n")
	s.send(t, "bulk/inner", thereAddress, 0, 4)
	if got := s.arrived(t, unix.IPPROTO_UDP, 4); !maps.Equal(got, map[byte]int{ef: 4}) {
		t.Errorf("datagrams arrived by type of service: %v, want %#x", got, ef)
	}
	if got := s.counts(t, have); got["inner"] != [2]uint64{4, 4} || got["bulk"] != [2]uint64{4, 4} {
		t.Errorf("counted packets and marked: %v", got)
	}
}

// A removed scope marks nothing, and its number counts from zero again; after the release nothing
// is attached or pinned.
func TestWhatGoesLeavesNothing(t *testing.T) {
	s := newStage(t)
	s.group(t, "bulk")
	s.group(t, "other")
	const bulk, other = "  bulk: {cgroup: /bulk, class: lbe}\n", "  other: {cgroup: /other, class: ef}\n"
	have := s.apply(t, module.State{}, bulk+other)
	s.send(t, "other", thereAddress, 0, 1)
	alone := s.apply(t, have, bulk)
	s.send(t, "other", thereAddress, 0, 1)
	third := s.apply(t, alone, bulk+"  third: {cgroup: /other, class: lbe}\n")
	s.send(t, "other", thereAddress, 0, 1)
	if got := s.arrived(t, unix.IPPROTO_UDP, 3); !maps.Equal(got, map[byte]int{ef: 1, 0: 1, le: 1}) {
		t.Errorf("datagrams arrived by type of service: %v", got)
	}
	if got := s.counts(t, third)["third"]; got != [2]uint64{1, 1} {
		t.Errorf("the scope that took a number over counts %v, want its own packet alone", got)
	}
	if released, err := s.release(); err != nil || !released {
		t.Fatalf("released: %t, %v", released, err)
	}
	s.send(t, "other", thereAddress, 0, 1)
	if got := s.arrived(t, unix.IPPROTO_UDP, 1); got[0] != 1 {
		t.Errorf("a datagram after the release arrived with type of service %v", got)
	}
	found, err := device.Attached(s.here, "eth0", moduleName, s.plane.host.Devices)
	if err != nil || len(found) > 0 {
		t.Errorf("%d programs are at the device, %v", len(found), err)
	}
	if released, err := s.release(); err != nil || released {
		t.Errorf("released again: %t, %v", released, err)
	}
}

// A device created later has no program until the next apply.
func TestDevicesThatComeLaterAreMarkedAtToo(t *testing.T) {
	s := newStage(t)
	s.group(t, "bulk")
	const policy = "  bulk: {cgroup: /bulk, class: lbe}\n"
	have := s.apply(t, module.State{}, policy)
	before := s.pins(t)
	ip(t, "-n", s.here.Name, "link", "add", "eth1", "type", "veth", "peer", "eth1", "netns", s.there.Name)
	if s.inPlace(t, have) {
		t.Error("a device without the program, and in place")
	}
	s.apply(t, have, policy)
	for ns, address := range map[*netns.Namespace]string{s.here: "10.10.0.1/24", s.there: "10.10.0.2/24"} {
		ip(t, "-n", ns.Name, "link", "set", "eth1", "up")
		ip(t, "-n", ns.Name, "address", "add", address, "dev", "eth1")
	}
	s.send(t, "bulk", "10.10.0.2", 0, 2)
	if got := s.arrived(t, unix.IPPROTO_UDP, 2); !maps.Equal(got, map[byte]int{le: 2}) {
		t.Errorf("datagrams arrived by type of service: %v", got)
	}
	ip(t, "-n", s.here.Name, "link", "delete", "eth1")
	if !s.inPlace(t, have) {
		t.Error("a device has gone, and what is left is not in place")
	}
	s.apply(t, have, policy)
	if pins := s.pins(t); !slices.Equal(pins, before) {
		t.Errorf("pinned are %q, and were %q", pins, before)
	}
}

// pins lists the pinned attachments.
func (s *stage) pins(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(s.plane.host.Devices, "*"))
	must(t, err)
	return all
}

// Packets of a container match its cgroup at the container's own device, even if its namespace was
// created later.
func TestOtherNamespacesAreMarkedInToo(t *testing.T) {
	s := newStage(t)
	s.group(t, "bulk")
	container, later := testutil.Namespace(t, "container"), testutil.Namespace(t, "later")
	s.plane.host.Namespaces = func(visit func(*netns.Namespace) error) error { return visit(container) }
	host := s.here
	for i, ns := range []*netns.Namespace{container, later} {
		address := fmt.Sprintf("10.4%d.0.", i)
		ip(t, "-n", ns.Name, "link", "add", "eth0", "type", "veth", "peer", fmt.Sprintf("container%d", i), "netns", s.there.Name)
		ip(t, "-n", ns.Name, "address", "add", address+"1/24", "dev", "eth0")
		ip(t, "-n", s.there.Name, "address", "add", address+"2/24", "dev", fmt.Sprintf("container%d", i))
		ip(t, "-n", ns.Name, "link", "set", "eth0", "up")
		ip(t, "-n", s.there.Name, "link", "set", fmt.Sprintf("container%d", i), "up")
	}
	s.apply(t, module.State{}, "  bulk: {cgroup: /bulk, class: lbe}\n")
	must(t, s.plane.Follow(later))
	for i, ns := range []*netns.Namespace{container, later} {
		s.here = ns
		s.send(t, "bulk", fmt.Sprintf("10.4%d.0.2", i), 0, 2)
	}
	s.here = host
	if got := s.arrived(t, unix.IPPROTO_UDP, 4); !maps.Equal(got, map[byte]int{le: 4}) {
		t.Errorf("datagrams arrived by type of service: %v", got)
	}
	s.plane.host.Namespaces = func(visit func(*netns.Namespace) error) error { return errors.Join(visit(container), visit(later)) }
	if _, err := s.release(); err != nil {
		t.Error(err)
	}
	s.plane.host.Namespaces = nil
}

// A router marks forwarded packets by the prefix of either end.
func TestForwardedPacketsAreMarkedByPrefix(t *testing.T) {
	s := newStage(t)
	inside := testutil.Namespace(t, "inside")
	ip(t, "-n", s.here.Name, "link", "add", "eth1", "type", "veth", "peer", "eth0", "netns", inside.Name)
	for ns, dev := range map[*netns.Namespace]string{s.here: "eth1", inside: "eth0"} {
		ip(t, "-n", ns.Name, "link", "set", dev, "up")
	}
	ip(t, "-n", s.here.Name, "address", "add", "10.20.0.1/24", "dev", "eth1")
	ip(t, "-n", inside.Name, "address", "add", "10.20.0.2/24", "dev", "eth0")
	ip(t, "-n", inside.Name, "route", "add", "default", "via", "10.20.0.1")
	must(t, sysctl.Set(s.here, "net.ipv4.ip_forward", "1"))
	s.apply(t, module.State{}, "  dormitory: {prefix: 10.20.0.0/24, class: lbe}\n")
	router := s.here
	s.here = inside
	s.send(t, "any", thereAddress, 0, 3)
	s.here = router
	if got := s.arrived(t, unix.IPPROTO_UDP, 3); !maps.Equal(got, map[byte]int{le: 3}) {
		t.Errorf("datagrams arrived by type of service: %v", got)
	}
}

// The header is found on devices without a link-layer header and behind VLAN tags too; the outer
// packet of a tunnel has the same socket and gets the same class.
func TestTunnelsAndVLANsAreMarked(t *testing.T) {
	for _, test := range []struct {
		kind, here, there string
		protocol          byte
	}{
		{"vlan", "link eth0 name upper type vlan id 7", "link eth0 name upper type vlan id 7", unix.IPPROTO_UDP},
		{"vlan of a provider", "link eth0 name upper type vlan proto 802.1ad id 7", "link eth0 name upper type vlan proto 802.1ad id 7", unix.IPPROTO_UDP},
		{"gre", "name upper type gre local " + hereAddress + " remote " + thereAddress, "name upper type gre local " + thereAddress + " remote " + hereAddress, unix.IPPROTO_GRE},
	} {
		t.Run(test.kind, func(t *testing.T) {
			s := newStage(t)
			for ns, arguments := range map[*netns.Namespace]string{s.here: test.here, s.there: test.there} {
				add := append([]string{"-n", ns.Name, "link", "add"}, strings.Fields(arguments)...)
				testutil.Need(t, strings.Fields(test.kind)[0]+" devices", exec.Command("ip", add...).Run())
				// Only the test may send through it.
				must(t, sysctl.Set(ns, "net.ipv6.conf.upper.disable_ipv6", "1"))
				ip(t, "-n", ns.Name, "link", "set", "upper", "up")
			}
			ip(t, "-n", s.here.Name, "address", "add", "10.30.0.1/24", "dev", "upper")
			ip(t, "-n", s.there.Name, "address", "add", "10.30.0.2/24", "dev", "upper")
			s.group(t, "bulk")
			s.apply(t, module.State{}, "  bulk: {cgroup: /bulk, class: lbe}\n")
			s.send(t, "bulk", "10.30.0.2", 0, 2)
			if got := s.arrived(t, test.protocol, 2); !maps.Equal(got, map[byte]int{le: 2}) {
				t.Errorf("packets arrived by type of service: %v", got)
			}
			if test.protocol == unix.IPPROTO_GRE { // inner packets, which were skipped
				s.send(t, "bulk", "10.30.0.2", 0, 2)
				if got := s.arrived(t, unix.IPPROTO_UDP, 2); !maps.Equal(got, map[byte]int{le: 2}) {
					t.Errorf("datagrams left the tunnel by type of service: %v", got)
				}
			}
		})
	}
}

// Super-packets are marked before segmentation, and every segment arrives.
func TestTCPIsMarkedWhole(t *testing.T) {
	s := newStage(t)
	s.group(t, "bulk")
	s.apply(t, module.State{}, "  bulk: {cgroup: /bulk, class: lbe}\n  host: {host: true, class: ef}\n")
	var listener net.Listener
	must(t, s.there.Do(func() (err error) {
		listener, err = net.Listen("tcp", thereAddress+":0")
		return err
	}))
	defer func() { _ = listener.Close() }()
	received := make(chan int64, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			received <- -1
			return
		}
		n, _ := io.Copy(io.Discard, conn)
		_ = conn.Close()
		received <- n
	}()
	sockets, err := s.group(t, "bulk").OpenSockets(t.Context())
	must(t, err)
	defer func() { _ = sockets.Close() }()
	fd, err := sockets.Socket(s.here, unix.AF_INET, unix.SOCK_STREAM)
	must(t, err)
	must(t, unix.Connect(fd, &unix.SockaddrInet4{Port: listener.Addr().(*net.TCPAddr).Port, Addr: [4]byte{10, 9, 0, 2}}))
	file := os.NewFile(uintptr(fd), "connection")
	const octets = 1 << 20
	_, err = file.Write(make([]byte, octets))
	must(t, errors.Join(err, unix.Shutdown(fd, unix.SHUT_WR), file.Close())) // the process in the cgroup has a copy
	if got := <-received; got != octets {
		t.Errorf("%d octets were received, want %d", got, octets)
	}
	for tos, packets := range s.arrived(t, unix.IPPROTO_TCP, 10) {
		if tos&^3 != le {
			t.Errorf("%d packets arrived with type of service %#x, want %#x", packets, tos, le)
		}
	}
}

func TestMistakesAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		"  a: {cgroup: /a, class: lbee}\n":            `scopes.a: class: "lbee" is no class: write lbe if that is meant`,
		"  a: {cgroup: /a, class: 64}\n":              "64 is no DSCP: they are 0 to 63",
		"  a: {cgroup: /a, class: [lbe]}\n":           "policy.yaml:3:",
		"  a: {cgroup: /a, class: }\n":                "policy.yaml:3:",
		"  a: {cgroup: /a, class: bulk and cheap}\n":  "the name of a DSCP as AF21",
		"  a: {cgroup: /a, class: lbe, clas: lbe}\n":  "clas",
		"  a: {cgroup: /a, class: -1}\n":              `"-1" is no class`,
		"  a: {cgroup: /a, class: 0x2e, shadow: 7}\n": "shadow",
	} {
		if _, err := parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestCodePointsHaveTheirNames(t *testing.T) {
	for text, want := range map[string]dscp.DSCP{"lbe": 1, "LE": 1, "EF": 46, "premium": 46, "af43": 38, "CS7": 56, "0x2e": 46, "63": 63, "network-control": 48} {
		if got, err := dscp.ParseDSCP(text); err != nil || got != want {
			t.Errorf("%s: %d, %v, want %d", text, got, err, want)
		}
	}
	for dscp, want := range map[dscp.DSCP]string{0: "CS0", 1: "LE", 8: "CS1", 46: "EF", 18: "AF21", 63: "DSCP 63"} {
		if got := dscp.String(); got != want {
			t.Errorf("%d is called %s, want %s", dscp, got, want)
		}
	}
}

// A policy that outgrows the data plane keeps its counters, and the larger program marks packets at
// existing devices too.
func TestADataPlaneGrowsWithItsPolicy(t *testing.T) {
	s := newStage(t)
	s.group(t, "bulk")
	have := s.apply(t, module.State{}, "  bulk: {cgroup: /bulk, class: lbe}\n")
	s.send(t, "bulk", thereAddress, 0, 3)
	s.arrived(t, unix.IPPROTO_UDP, 3)
	var users strings.Builder
	for i := range 20 {
		fmt.Fprintf(&users, "  user%d: {user: %d, class: ef}\n", i, 5000+i)
	}
	have = s.apply(t, have, "  bulk: {cgroup: /bulk, class: ef}\n"+users.String())
	s.send(t, "bulk", thereAddress, 0, 2)
	if got := s.arrived(t, unix.IPPROTO_UDP, 2); !maps.Equal(got, map[byte]int{ef: 2}) {
		t.Errorf("datagrams arrived by type of service: %v, want %#x", got, ef)
	}
	if got := s.counts(t, have)["bulk"]; got != [2]uint64{5, 5} {
		t.Errorf("%d packets were seen and %d marked, want 5 of each", got[0], got[1])
	}
	m, err := openMarker(s.plane.host.Pins)
	must(t, err)
	defer func() { _ = m.close() }()
	if got := m.maps.ClassScopes.MaxEntries(); got != uint32(module.Entries(21)) {
		t.Errorf("there is room for %d scopes", got)
	}
}
