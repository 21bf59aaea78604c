// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/cmd/weir/cli"
	"weir/internal/fault"
	"weir/kernel/netns"
	"weir/kernel/probe"
	"weir/kernel/testutil"
)

// sharedLink is slow, so that all datagrams wait there before many have left. The limit is a
// quarter of it.
const sharedLink = `version: 1
scopes:
  held: {mark: 7, egress: {rate: 125kbit, mode: shape, burst: 1ms, mark: 10s, drop: 30s}}
links:
  veth:
    rate: 500kbit
    classes: {premium: {queue: 10s, ecn: false}, best-effort: {queue: 10s, ecn: false}, lbe: {queue: 5s, ecn: false}}
`

// datagrams of one kind, sent at once.
type datagrams struct {
	dscp, mark, packets int
}

const datagramSize = 1000

func (d datagrams) send(t *testing.T, host *netns.Namespace) {
	t.Helper()
	err := host.Do(func() error {
		fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = unix.Close(fd) })
		err = errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 1<<28), unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, d.mark),
			unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_TCLASS, d.dscp<<2))
		data := make([]byte, datagramSize)
		for i := 0; i < d.packets && err == nil; i++ {
			binary.BigEndian.PutUint16(data, uint16(d.dscp<<8|d.mark))
			binary.BigEndian.PutUint16(data[2:], uint16(i))
			if err = unix.Sendto(fd, data, 0, &unix.SockaddrInet6{Port: 9, Addr: netip.MustParseAddr("2001:db8::2").As16()}); errors.Is(err, unix.ENOBUFS) {
				err = nil
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A limit by delay holds on a link whose classes hold: what it holds leaves at its rate beside less
// than best effort that fills the link, all of it and in order, best effort loses nothing, and both
// rooms tell of it.
func TestALimitByDelayOnALinkWithClasses(t *testing.T) {
	for _, kind := range []string{"fq", "htb", "tbf"} {
		testutil.Need(t, kind, probe.Qdisc(kind))
	}
	hosts, grounds := ioamHosts(t)
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte(sharedLink), 0o600); err != nil {
		t.Fatal(err)
	}
	grounds[0].in(t, hosts[0], fault.OK, "plan", file)
	grounds[0].in(t, hosts[0], fault.OK, "apply", file)
	contains(t, "plan", grounds[0].in(t, hosts[0], fault.OK, "plan", file), "Nothing changes.")
	frames := captured(t, hosts[1], "veth", unix.ETH_P_IPV6)
	const ethernet, header, limited, free, many = 14, 48, 40, 60, 500
	(datagrams{0, 1, 1}).send(t, hosts[0])
	frames() // its neighbour is known
	(datagrams{1, 0, many}).send(t, hosts[0])
	(datagrams{0, 7, limited}).send(t, hosts[0])
	(datagrams{0, 0, free}).send(t, hosts[0])
	var low, next, others int
	for deadline := time.Now().Add(time.Minute); next < limited || others < free; {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d held datagrams came, %d of %d of best effort, %d of less", next, limited, others, free, low)
		}
		p := frames()[ethernet:]
		if len(p) < header+datagramSize || p[6] != unix.IPPROTO_UDP {
			continue
		}
		number := int(binary.BigEndian.Uint16(p[header+2:]))
		switch binary.BigEndian.Uint16(p[header:]) {
		case 7:
			if number != next {
				t.Fatalf("held datagram %d came in the place of %d", number, next)
			}
			next++
		case 1 << 8:
			if next > 0 && next < limited {
				low++
			}
		case 0:
			if number != others {
				t.Fatalf("datagram %d came in the place of %d", number, others)
			}
			others++
		}
	}
	// Held datagrams depart at a quarter of the link's rate, and less than best effort has what
	// others leave: two datagrams beside each or so.
	if low < limited/2 || low > 4*limited {
		t.Errorf("%d datagrams of less than best effort came among %d held ones", low, limited)
	}
	status := grounds[0].in(t, hosts[0], fault.OK, "status")
	for _, want := range []string{"125 kbit/s (shaped)", "best-effort", "enforced"} {
		contains(t, "status", status, want)
	}
	grounds[0].in(t, hosts[0], fault.OK, "release")
}

// What would hold all classes in front of theirs is refused, with what to write in its place.
func TestALimitOfALinkWithClassesIsTheirRate(t *testing.T) {
	testutil.Need(t, "htb", probe.Qdisc("htb"))
	hosts, grounds := ioamHosts(t)
	file := filepath.Join(t.TempDir(), "policy.yaml")
	text := strings.Replace(sharedLink, "mark: 7,", "interface: veth,", 1)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	err := hosts[0].Do(func() error {
		a := &cli.App{Stdout: &said, Stderr: &said, Engine: grounds[0].engine, Inline: true}
		if status := a.Run(t.Context(), newRoot(a), []string{"plan", file}); status != fault.Usage {
			t.Errorf("planned with status %d", status)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"veth: both limit and links", "scope held would put all classes of veth into one queue", "links.veth.rate"} {
		contains(t, "plan", said.String(), want)
	}
}
