// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"weir/core/match"
	"weir/core/module"
	"weir/kernel/cgroup"
	"weir/kernel/testutil"
	"weir/modules/limit/police"
)

// The first packet of a cgroup that is created after the policy is charged, without a resync of the
// daemon.
func TestTheFirstPacketOfANewCgroupIsCharged(t *testing.T) {
	h := coreHost(t)
	testutil.Need(t, "tracing", match.CanRebind())
	client, _, server := path(t)
	plane, want := Module{}.Plane(h), bound(t, h, map[string]int{}, "  a: {cgroup: /a, egress: 1Mbit}\n")
	if _, err := plane.Apply(module.State{}, want); err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		group, err := cgroup.Create(h.CgroupRoot, "a")
		if err != nil {
			t.Fatal(err)
		}
		sockets, err := group.OpenSockets(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		fd, err := sockets.Socket(client, unix.AF_INET, unix.SOCK_DGRAM)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Sendto(fd, []byte("hello"), 0, addressOf(server)); err != nil {
			t.Error(err)
		}
		_ = unix.Close(fd)
		opened, err := police.LoadPinned(h.Pins)
		if err != nil {
			t.Fatal(err)
		}
		if got := counters(t, opened, 0).Packets; got != uint64(round+1) {
			t.Errorf("round %d: %d packets were charged", round, got)
		}
		if err := opened.Close(); err != nil {
			t.Error(err)
		}
		id, err := group.ID()
		if err != nil {
			t.Fatal(err)
		}
		if holds, err := plane.(module.Rebinder).Holds(0, match.OfCgroup(id)); err != nil || !holds {
			t.Errorf("round %d: it holds the cgroup: %v, %v", round, holds, err)
		}
		if err := sockets.Close(); err != nil {
			t.Error(err)
		}
		if err := group.Remove(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := plane.Release(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(h.Pins, match.RebindPin)); !os.IsNotExist(err) {
		t.Errorf("its pin is left: %v", err)
	}
}

func addressOf(address netip.Addr) unix.Sockaddr {
	return &unix.SockaddrInet4{Port: 9, Addr: address.As4()}
}
