// SPDX-License-Identifier: Apache-2.0

package police

import (
	"errors"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/core/match"
	"weir/kernel/testutil"
)

// elsewhere returns a data plane with scope 0 for all packets, and scope 1 or 2 by the loopback
// address.
func elsewhere(t *testing.T) *DataPlane {
	t.Helper()
	p := plane(t, 3)
	needStorage(t, p)
	for scope, prefix := range map[int]string{1: "127.0.0.1/32", 2: "127.0.0.2/32"} {
		if err := p.AssignPrefix(netip.MustParsePrefix(prefix), scope); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func TestUnconnectedSocketsAreChargedInAdvanceToo(t *testing.T) {
	p := paired(t)
	const packets = 60
	for _, ipv6 := range []bool{false, true} {
		lavish(t, p, 0, 0, false, generous())
		lavish(t, p, 1, 0, false, generous())
		frame := datagram(t, ipv6, 0, payload4)
		if ipv6 {
			frame = datagram(t, ipv6, 0, payload6)
		}
		before := [2]uint64{counters(t, p, 0).Packets, counters(t, p, 1).Packets}
		if got := sendFrame(t, p, frame, 0, packets); got <= packets || got > packets+quotaMost {
			t.Errorf("IPv6 %t: charged for %d packets, sent %d", ipv6, got, packets)
		}
		want := [2]uint64{packets, packets}
		if ipv6 {
			want[1] = 0 // the other scope is of an IPv4 prefix
		}
		if n := [2]uint64{counters(t, p, 0).Packets - before[0], counters(t, p, 1).Packets - before[1]}; n != want {
			t.Errorf("IPv6 %t: the scopes counted %d packets, want %d", ipv6, n, want)
		}
	}
}

// Changed assignments apply to the next packet, for any destination.
func TestCachedScopesEndWithTheirAssignment(t *testing.T) {
	p := elsewhere(t)
	for scope := range 3 {
		if err := p.Set(scope, Egress, Limit{Rate: MaxRate, Loopback: true}); err != nil {
			t.Fatal(err)
		}
	}
	fd := datagramSocket(t, p)
	to := &unix.SockaddrInet4{Port: 9, Addr: [4]byte{127, 0, 0, 1}}
	const each = 10
	for round, want := range [][3]uint64{{each, each, 0}, {2 * each, each, each}, {3 * each, each, each}} {
		for range each {
			if err := unix.Sendto(fd, []byte("x"), 0, to); err != nil {
				t.Fatal(err)
			}
		}
		if got := [3]uint64{counters(t, p, 0).Packets, counters(t, p, 1).Packets, counters(t, p, 2).Packets}; got != want {
			t.Errorf("round %d: the scopes counted %d packets, want %d", round, got, want)
		}
		prefix := netip.MustParsePrefix("127.0.0.1/32")
		var err error
		if round == 0 {
			err = p.AssignPrefix(prefix, 2)
		} else {
			err = p.Unassign(match.OfPrefix(prefix))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// CPUs that share a socket, each with alternating remotes, look up the scopes of their own packets.
func TestCPUsThatShareASocketFindTheirOwnScopes(t *testing.T) {
	p := elsewhere(t)
	for scope := range 3 {
		if err := p.Set(scope, Egress, Limit{Rate: MaxRate, Loopback: true}); err != nil {
			t.Fatal(err)
		}
	}
	shareSocket(t, p, 50_000, 1)
}

// No packet passes an uncharged scope, whichever CPU has prepaid.
func TestCPUsThatShareASocketAreChargedForEachPacket(t *testing.T) {
	p := elsewhere(t)
	const octet = int64(quotaCost) / 1000
	const behind = 4 * quotaMost // packets; a scope discards credit beyond its burst
	var start [3]int64
	for scope := range 3 {
		lavish(t, p, scope, behind, false, generous())
		start[scope] = stateOf(t, p, scope).FinishNs
	}
	began := time.Now()
	octets := shareSocket(t, p, 300, 3)
	if time.Since(began) > behind*quotaCost {
		testutil.Need(t, "cpu-affinity", errors.New("the scopes were idle while packets were sent"))
	}
	for scope := range 3 {
		if charged := (stateOf(t, p, scope).FinishNs - start[scope]) / octet; charged < int64(octets[scope]) {
			t.Errorf("scope %d was charged for %d octets, %d passed", scope, charged, octets[scope])
		}
	}
}

// shareSocket sends from every CPU through one socket, in series to two alternating remotes. It
// fails if a scope lacks its own packets, and returns the bytes of the scopes.
func shareSocket(t *testing.T, p *DataPlane, turns, each int) (octets [3]uint64) {
	t.Helper()
	fd := datagramSocket(t, p)
	sent := make([][3]uint64, runtime.NumCPU())
	onEveryCPU(t, func(processor int) error {
		for turn := range turns {
			remote := (turn+processor)%2 + 1
			to := &unix.SockaddrInet4{Port: 9, Addr: [4]byte{127, 0, 0, byte(remote)}}
			for range each {
				if err := unix.Sendto(fd, []byte("x"), 0, to); err != nil {
					return err
				}
			}
			sent[processor][0] += uint64(each)
			sent[processor][remote] += uint64(each)
		}
		return nil
	})
	for scope := range 3 {
		for _, one := range sent {
			octets[scope] += one[scope] * (14 + 20 + 8 + 1)
		}
		if c := counters(t, p, scope); c.Bytes != octets[scope] || c.Dropped != 0 {
			t.Errorf("scope %d counted %d octets and refused %d packets, want %d and none", scope, c.Bytes, c.Dropped, octets[scope])
		}
	}
	return octets
}
