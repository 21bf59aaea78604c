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

// sharedLink is slow, so that all datagrams are queued before many have left. The shaper's rate is
// a quarter of the link's.
const sharedLink = `version: 1
scopes:
  held: {mark: 7, egress: {rate: 125kbit, mode: shape, burst: 1ms, mark: 10s, drop: 30s}}
links:
  veth:
    rate: 500kbit
    classes: {premium: {queue: 10s, ecn: false}, best-effort: {queue: 10s, ecn: false}, lbe: {queue: 5s, ecn: false}}
`

// datagrams are packets datagrams with one DSCP and one mark, sent without a pause.
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

// A shaper and the class queues share a link. Shaped packets leave at the shaper's rate, in order
// and without loss, although less than best effort fills the link. Best effort loses no packet, and
// the status of both modules reports it.
func TestAShaperOnALinkWithClasses(t *testing.T) {
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
	frames() // the neighbour entry is resolved
	(datagrams{1, 0, many}).send(t, hosts[0])
	(datagrams{0, 7, limited}).send(t, hosts[0])
	(datagrams{0, 0, free}).send(t, hosts[0])
	var low, next, others int
	for deadline := time.Now().Add(time.Minute); next < limited || others < free; {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d shaped datagrams arrived, %d of %d of best effort, %d of less than best effort", next, limited, others, free, low)
		}
		p := frames()[ethernet:]
		if len(p) < header+datagramSize || p[6] != unix.IPPROTO_UDP {
			continue
		}
		number := int(binary.BigEndian.Uint16(p[header+2:]))
		switch binary.BigEndian.Uint16(p[header:]) {
		case 7:
			if number != next {
				t.Fatalf("shaped datagram %d arrived instead of %d", number, next)
			}
			next++
		case 1 << 8:
			if next > 0 && next < limited {
				low++
			}
		case 0:
			if number != others {
				t.Fatalf("datagram %d arrived instead of %d", number, others)
			}
			others++
		}
	}
	// Shaped datagrams use a quarter of the link's rate and less than best effort the rest: about
	// two datagrams for each shaped one.
	if low < limited/2 || low > 4*limited {
		t.Errorf("%d datagrams of less than best effort arrived among %d shaped ones", low, limited)
	}
	status := grounds[0].in(t, hosts[0], fault.OK, "status")
	for _, want := range []string{"125 kbit/s (shaped)", "best-effort", "enforced"} {
		contains(t, "status", status, want)
	}
	grounds[0].in(t, hosts[0], fault.OK, "release")
}

// A shaper of the whole device would put all classes into one queue. The error names the key to use
// instead, links.veth.rate.
func TestAShaperOfADeviceWithClassesIsAnError(t *testing.T) {
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
