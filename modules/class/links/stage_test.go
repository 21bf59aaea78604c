// SPDX-License-Identifier: Apache-2.0

package links

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/core/module"
	"weir/core/policy"
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

// stage is a host with the device eth0, another host behind it, and a data plane.
type stage struct {
	here, there *netns.Namespace
	plane       *hostPlane
}

func newStage(t testing.TB, device string) *stage {
	t.Helper()
	testutil.NeedRoot(t)
	s := &stage{here: testutil.Namespace(t, "here"), there: testutil.Namespace(t, "there")}
	for _, ns := range []*netns.Namespace{s.here, s.there} {
		must(t, sysctl.Set(ns, "net.ipv6.conf.default.disable_ipv6", "1"))
	}
	s.link(t, device)
	pins := testutil.BPFFS(t)
	s.plane = &hostPlane{module.Host{Pins: filepath.Join(pins, moduleName), Devices: filepath.Join(pins, "devices"),
		Files: filepath.Join(t.TempDir(), "files")}}
	t.Cleanup(func() {
		if _, err := s.release(); err != nil {
			t.Error(err)
		}
		for _, folder := range []string{s.plane.host.Pins, s.plane.host.Files} {
			if _, err := os.Stat(folder); err == nil {
				t.Errorf("%s is left behind", folder)
			}
		}
	})
	return s
}

// link creates eth0, with additional arguments of ip link.
func (s *stage) link(t testing.TB, words string) {
	t.Helper()
	run(t, "ip", "-n "+s.here.Name+" link add eth0 "+words+" type veth peer eth0 netns "+s.there.Name)
	for ns, address := range map[*netns.Namespace]string{s.here: "10.9.0.1/24", s.there: "10.9.0.2/24"} {
		run(t, "ip", "-n "+ns.Name+" link set eth0 up")
		run(t, "ip", "-n "+ns.Name+" address add "+address+" dev eth0")
	}
	run(t, "ip", "-n "+s.there.Name+" link set eth0 address 02:00:00:00:00:02")
	run(t, "ip", "-n "+s.here.Name+" neighbour replace 10.9.0.2 lladdr 02:00:00:00:00:02 nud permanent dev eth0")
	for deadline := time.Now().Add(time.Minute); !strings.Contains(run(t, "ip", "-n "+s.here.Name+" link show eth0"), "state UP"); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("eth0 does not come up")
		}
	}
}

func run(t testing.TB, name, words string) string {
	t.Helper()
	out, err := exec.Command(testutil.Command(t, name), strings.Fields(words)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, words, err, out)
	}
	return string(out)
}

var counters = regexp.MustCompile(`"direct_packets_stat":\d+,`)

// show returns tc(8)'s output for the device.
func (s *stage) show(t testing.TB) (text string) {
	t.Helper()
	for _, what := range []string{"-j -d qdisc show dev eth0", "-j -d class show dev eth0", "-d filter show dev eth0"} {
		text += run(t, "tc", "-n "+s.here.Name+" "+what)
	}
	return counters.ReplaceAllString(text, "")
}

func (s *stage) state(t testing.TB, text string) module.State {
	t.Helper()
	if text == "" {
		return module.State{}
	}
	p, err := parse(text)
	must(t, err)
	return module.State{Host: p.Host}
}

// try applies like the engine.
func (s *stage) try(have, want module.State) (notes []string, err error) {
	err = s.here.Do(func() error {
		if !want.Empty() {
			if err := s.plane.Ready(want); err != nil {
				return err
			}
		}
		notes, err = s.plane.Apply(have, want)
		return err
	})
	return notes, err
}

func (s *stage) apply(t testing.TB, text string) module.State {
	t.Helper()
	want := s.state(t, text)
	_, err := s.try(module.State{}, want)
	must(t, err)
	if s.inPlace(t, want) == want.Empty() {
		t.Fatal("applied, and not in place")
	}
	return want
}

func (s *stage) inPlace(t testing.TB, have module.State) (in bool) {
	t.Helper()
	must(t, s.here.Do(func() (err error) {
		in, err = s.plane.InPlace(have)
		return err
	}))
	return in
}

func (s *stage) release() (released bool, err error) {
	err = s.here.Do(func() (err error) {
		released, err = s.plane.Release()
		return err
	})
	return released, err
}

// row returns the reported counters of a class.
func (s *stage) row(t testing.TB, have module.State, name string) (packets, dropped uint64) {
	t.Helper()
	var report module.Report
	must(t, s.here.Do(func() (err error) {
		report, err = s.plane.Report(have)
		return err
	}))
	for _, r := range report.Rows {
		if r.Part == name && r.Values != nil {
			return r.Values[0].Count, r.Values[2].Count
		}
	}
	t.Fatalf("no counts of %s: %v", name, report.Rows)
	return 0, 0
}

// train is a burst of datagrams of one class.
type train struct {
	dscp     byte
	packets  int
	priority int // of the socket; 0 for the DSCP's
}

const size = 1000 // bytes of a datagram

// send sends trains; each datagram starts with its DSCP and its number in the train.
func (s *stage) send(t testing.TB, trains ...train) {
	t.Helper()
	fd := s.socket(t, s.here)
	must(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 1<<28))
	to := &unix.SockaddrInet4{Port: 9, Addr: [4]byte{10, 9, 0, 2}}
	data := make([]byte, size)
	for _, b := range trains {
		must(t, unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_TOS, int(b.dscp)<<2))
		if b.priority != 0 {
			prioritize(t, fd, b.priority) // after IP_TOS, which sets a priority
		}
		for i := range b.packets {
			data[0], data[1], data[2] = b.dscp, byte(i>>8), byte(i)
			if err := unix.Sendto(fd, data, 0, to); err != nil && !errors.Is(err, unix.ENOBUFS) {
				t.Fatal(err)
			}
		}
	}
}

func (s *stage) socket(t testing.TB, ns *netns.Namespace) (fd int) {
	t.Helper()
	must(t, ns.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK, 0)
		return err
	}))
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// arrival is one datagram of a train.
type arrival struct {
	dscp   byte
	number int
}

// listen opens a socket that buffers datagrams for received.
func (s *stage) listen(t testing.TB) (fd int) {
	t.Helper()
	fd = s.socket(t, s.there)
	must(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 1<<28))
	must(t, unix.Bind(fd, &unix.SockaddrInet4{Port: 9}))
	return fd
}

// received waits until the link's queues are empty, and returns all datagrams in order.
func (s *stage) received(t testing.TB, fd int, have module.State) (all []arrival) {
	t.Helper()
	buffer := make([]byte, 2*size)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		waits := s.waits(t, have)
		for {
			n, _, err := unix.Recvfrom(fd, buffer, 0)
			if errors.Is(err, unix.EAGAIN) {
				break
			}
			must(t, err)
			if n == size {
				all = append(all, arrival{buffer[0], int(buffer[1])<<8 | int(buffer[2])})
			}
		}
		if !waits {
			return all
		}
		if time.Now().After(deadline) {
			t.Fatal("the link does not become empty")
		}
	}
}

func (s *stage) waits(t testing.TB, have module.State) bool {
	t.Helper()
	var report module.Report
	must(t, s.here.Do(func() (err error) {
		report, err = s.plane.Report(have)
		return err
	}))
	for _, r := range report.Rows {
		if r.Values != nil && r.Values[3].Number > 0 {
			return true
		}
	}
	return false
}

var _ policy.Treatment = (*Treatment)(nil)
