// SPDX-License-Identifier: Apache-2.0

package links

import (
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"weir/core/module"
	"weir/kernel/probe"
	"weir/kernel/rtnl"
	"weir/kernel/testutil"
)

// around holds the expected warnings about bypasses: of plan, and of status.
func (s *stage) around(t *testing.T, have module.State) []string {
	t.Helper()
	var doubts []string
	var report module.Report
	must(t, s.here.Do(func() (err error) {
		doubts, err = bypasses(have)
		if err != nil {
			return err
		}
		report, err = s.plane.Report(have)
		return err
	}))
	if !slices.Equal(doubts, report.Note) {
		t.Errorf("plan says %q, status %q", doubts, report.Note)
	}
	return doubts
}

func (s *stage) device(t *testing.T, name string) (d rtnl.Device) {
	t.Helper()
	conn, err := rtnl.Open(s.here)
	must(t, err)
	defer conn.Close()
	d, err = conn.Device(name)
	must(t, err)
	return d
}

// second creates eth1 with 10.9.1.2 behind it.
func (s *stage) second(t *testing.T) {
	t.Helper()
	run(t, "ip", "-n "+s.here.Name+" link add eth1 type veth peer eth1 netns "+s.there.Name)
	run(t, "ip", "-n "+s.there.Name+" link set eth1 up")
	run(t, "ip", "-n "+s.here.Name+" link set eth1 up")
	run(t, "ip", "-n "+s.here.Name+" address add 10.9.1.1/24 dev eth1")
	run(t, "ip", "-n "+s.here.Name+" neighbour replace 10.9.1.2 lladdr 02:00:00:00:00:02 nud permanent dev eth1")
}

// sends sends one datagram of less than best effort and returns the number sent by the link's class
// so far.
func (s *stage) sends(t *testing.T, have module.State, to [4]byte) uint64 {
	t.Helper()
	fd := s.socket(t, s.here)
	must(t, unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_TOS, 1<<2))
	must(t, unix.Sendto(fd, make([]byte, size), 0, &unix.SockaddrInet4{Port: 9, Addr: to}))
	for s.waits(t, have) {
	}
	packets, _ := s.row(t, have, lowEffort)
	return packets
}

func TestXDPThatMaySendAroundTheQueueIsSaid(t *testing.T) {
	s := newStage(t, "")
	have := s.apply(t, "  eth0: {rate: 10Mbit}\n")
	if notes := s.around(t, have); len(notes) > 0 {
		t.Errorf("with nothing there: %q", notes)
	}
	s.second(t)
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "balance", Type: ebpf.XDP, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}})
	must(t, err)
	defer func() { _ = program.Close() }()
	var attached link.Link
	must(t, s.here.Do(func() (err error) {
		attached, err = link.AttachXDP(link.XDPOptions{Program: program, Interface: s.device(t, "eth1").Index, Flags: link.XDPGenericMode})
		return err
	}))
	defer func() { _ = attached.Close() }()
	notes := s.around(t, have)
	if len(notes) != 1 || !strings.Contains(notes[0], "links.eth0: cannot determine the traffic of XDP program ") || !strings.Contains(notes[0], "(balance) at eth1 that bypasses its queue") {
		t.Errorf("with a program at eth1: %q", notes)
	}
}

// Packets that a filter of the link redirects elsewhere bypass its classes, and a warning says so.
// Packets redirected to the link use them; copies leave the original packets in their classes.
func TestFiltersThatRedirectAreSaid(t *testing.T) {
	const policy = "  eth0: {rate: 10Mbit}\n"
	testutil.Need(t, "matchall", probe.Classifier("matchall"))
	for _, test := range []struct {
		name, at, action string
		to               [4]byte
		waits            uint64 // number sent by the class for one datagram
		says             string
	}{
		{"away", "eth0", "egress redirect dev eth1", [4]byte{10, 9, 0, 2}, 0,
			"links.eth0: packets redirected by its egress filter matchall of priority 7 bypass its classes"},
		{"copied away", "eth0", "egress mirror dev eth1", [4]byte{10, 9, 0, 2}, 1, ""},
		{"to the link", "eth1", "egress redirect dev eth0", [4]byte{10, 9, 1, 2}, 1, ""},
		{"elsewhere", "eth1", "ingress redirect dev eth1", [4]byte{10, 9, 1, 2}, 0, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newStage(t, "")
			s.second(t)
			have := s.apply(t, policy)
			before, _ := s.row(t, have, lowEffort)
			run(t, "tc", "-n "+s.here.Name+" qdisc add dev "+test.at+" clsact")
			run(t, "tc", "-n "+s.here.Name+" filter add dev "+test.at+" egress pref 7 matchall action mirred "+test.action)
			if after := s.sends(t, have, test.to); after != before+test.waits {
				t.Errorf("of one datagram %d waited in its class, want %d", after-before, test.waits)
			}
			if notes := strings.Join(s.around(t, have), "\n"); notes != test.says {
				t.Errorf("said: %q, want %q", notes, test.says)
			}
			run(t, "tc", "-n "+s.here.Name+" qdisc del dev "+test.at+" clsact")
		})
	}
}

var _ module.Linter = Module{}
