// SPDX-License-Identifier: Apache-2.0

package police

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"

	"weir/kernel/clock"
	"weir/kernel/testutil"
)

// A packet costs 125 ms, so that nothing drains, and a socket may prepay quotaMost packets.
const (
	quotaCost = 125 * time.Millisecond
	quotaMost = 25
)

// generous returns a limit with a burst of 400 packets.
func generous() Limit {
	l := slow(16*quotaMost, 100, 200)
	l.Reserve = 0
	return l
}

// lasting returns a plane with quotas that outlive the test, which may pause between packets.
func lasting(t *testing.T, scopes int) *DataPlane {
	t.Helper()
	former := tunables.QuotaTicks
	tunables.QuotaTicks = 1 << 30
	defer func() { tunables.QuotaTicks = former }()
	return plane(t, scopes)
}

// lavish limits a scope, with a queue of the given number of packets and a fair rate at its
// maximum, or at the rate.
func lavish(t *testing.T, p *DataPlane, scope, queued int, held bool, l Limit) {
	t.Helper()
	config := l.config(Egress)
	state := limitLimitState{FairRate: 2 * config.Rate}
	if held {
		state.FairRate = config.Rate
	}
	now := clock.Now()
	// The interval does not end, so that the fair rate stays as it is.
	state.FinishNs, state.IntervalStartNs = now+int64(queued)*int64(quotaCost)-int64(l.Burst), uint64(now)
	if err := errors.Join(p.objects.LimitStates.Put(uint32(2*scope), &state), p.Set(scope, Egress, l)); err != nil {
		t.Fatal(err)
	}
}

// stream sends packets of one TCP socket and returns the charged packets, rounded.
func stream(t *testing.T, p *DataPlane, scope, packets int) int {
	t.Helper()
	frame := datagram(t, false, 0, payload4)
	frame[14+9] = unix.IPPROTO_TCP
	return sendFrame(t, p, frame, scope, packets)
}

// sendFrame sends a frame repeatedly through one socket and returns the charged packets, rounded.
func sendFrame(t *testing.T, p *DataPlane, frame []byte, scope, packets int) int {
	t.Helper()
	before := stateOf(t, p, scope).FinishNs
	if _, err := p.objects.LimitEgress.Run(&ebpf.RunOptions{Data: frame, Repeat: uint32(packets)}); err != nil {
		testutil.Need(t, "BPF_PROG_TEST_RUN of cgroup_skb", err)
	}
	return packetsCharged(stateOf(t, p, scope).FinishNs - before)
}

// packetsCharged converts the advance of a queue to packets, rounded.
func packetsCharged(ns int64) int {
	return int((time.Duration(ns) + quotaCost/2) / quotaCost)
}

func stateOf(t *testing.T, p *DataPlane, scope int) (state limitLimitState) {
	t.Helper()
	if err := p.objects.LimitStates.Lookup(uint32(2*scope), &state); err != nil {
		t.Fatal(err)
	}
	return state
}

func TestSocketsAreChargedInAdvanceFarFromTheirLimit(t *testing.T) {
	for _, test := range []struct {
		name    string
		scopes  int
		queued  int
		held    bool
		limit   Limit
		advance bool
	}{
		{"far from the limit", 1, 0, false, generous(), true},
		{"in two scopes", 2, 0, false, generous(), true},
		{"behind half of the burst", 1, 9 * quotaMost, false, generous(), false},
		{"held by the fair rate", 1, 0, true, generous(), false},
		{"with a weight among siblings", 1, 0, false, generous().below(1, 0), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := lasting(t, 2)
			needStorage(t, p)
			if err := p.AssignPrefix(netip.MustParsePrefix("10.0.0.0/8"), 1); err != nil {
				t.Fatal(err)
			}
			for _, packets := range []int{1, 2, 5, 60, 100} {
				for scope := range test.scopes {
					lavish(t, p, scope, test.queued, test.held, test.limit)
				}
				before := counters(t, p, 0)
				got := stream(t, p, 0, packets)
				counted := counters(t, p, 0)
				if n := counted.Packets - before.Packets; n != uint64(packets) || counted.Bytes-before.Bytes != 1000*n {
					t.Errorf("counted %d packets and %d octets of %d packets of 1000", n, counted.Bytes-before.Bytes, packets)
				}
				most := packets
				if test.advance {
					most += quotaMost
				}
				if got < packets || got > most {
					t.Errorf("charged for %d packets, sent %d, and %d at most in advance", got, packets, most-packets)
				}
				// The first packet of a socket is charged alone, the second with as much again for
				// the next two.
				if want := 4; test.advance && packets == 2 && got != want {
					t.Errorf("charged for %d packets after the second, want %d", got, want)
				}
			}
		})
	}
}

// With any prepaid quota, a scope admits its burst and threshold, and drops the rest.
func TestQuotaAdmitsNoMoreThanTheQueueHolds(t *testing.T) {
	p := plane(t, 1)
	needStorage(t, p)
	l := generous()
	lavish(t, p, 0, 0, false, l)
	began := time.Now()
	// Half a packet of slack is in slow's threshold.
	const hold = 16*quotaMost + 200
	stream(t, p, 0, 2*hold)
	c := counters(t, p, 0)
	if c.Packets+c.Dropped != 2*hold || c.Packets > hold+drained(began) {
		t.Errorf("%d admitted and %d refused of %d; the queue holds %d", c.Packets, c.Dropped, 2*hold, hold)
	}
	// A timer tick may have ended the prepaid quota.
	if c.Packets < hold-2*quotaMost {
		t.Errorf("%d admitted, the queue holds %d", c.Packets, hold)
	}
}

// Interface indices repeat in other network namespaces: lo is always the first.
func TestInterfacesOfOtherNamespacesAreOthers(t *testing.T) {
	p := plane(t, 2)
	if err := features.HaveProgramHelper(ebpf.CGroupSKB, asm.FnGetNetnsCookie); err != nil {
		testutil.Need(t, "bpf_get_netns_cookie in cgroup_skb", err)
	}
	if err := errors.Join(p.AssignInterface(1, 1), p.Set(0, Egress, Limit{Rate: MaxRate, Loopback: true}),
		p.Set(1, Egress, Limit{Rate: MaxRate, Loopback: true})); err != nil {
		t.Fatal(err)
	}
	sendDatagrams(t, p, false, 1, 5, [4]byte{127, 0, 0, 1})
	if all, one := counters(t, p, 0).Packets, counters(t, p, 1).Packets; all != 5 || one != 0 {
		t.Errorf("%d packets counted, %d of them as of this namespace's interface", all, one)
	}
	stream(t, p, 1, 3)
	if one := counters(t, p, 1).Packets; one != 3 {
		t.Errorf("%d packets counted of 3 on the interface", one)
	}
}

// A datagram socket is charged to the scopes of its current remote, an unconnected one per packet.
func TestDatagramSocketsAreChargedWhereTheySend(t *testing.T) {
	for _, connected := range []bool{true, false} {
		p := plane(t, 3)
		for scope, prefix := range map[int]string{1: "127.0.0.1/32", 2: "127.0.0.2/32"} {
			if err := p.AssignPrefix(netip.MustParsePrefix(prefix), scope); err != nil {
				t.Fatal(err)
			}
		}
		for scope := range 3 {
			if err := p.Set(scope, Egress, Limit{Rate: MaxRate, Loopback: true}); err != nil {
				t.Fatal(err)
			}
		}
		const rounds, each = 3, 20
		sendDatagrams(t, p, connected, rounds, each, [4]byte{127, 0, 0, 1}, [4]byte{127, 0, 0, 2})
		for scope, want := range []uint64{2 * rounds * each, rounds * each, rounds * each} {
			if got := counters(t, p, scope).Packets; got != want {
				t.Errorf("connected %t: scope %d counted %d packets, want %d", connected, scope, got, want)
			}
		}
	}
}

// sendDatagrams sends datagrams to each address per round, through one socket of a cgroup with the
// plane.
func sendDatagrams(t *testing.T, p *DataPlane, connected bool, rounds, each int, addresses ...[4]byte) {
	t.Helper()
	fd := datagramSocket(t, p)
	for range rounds {
		for _, address := range addresses {
			to, err := &unix.SockaddrInet4{Port: 9, Addr: address}, error(nil)
			if connected {
				err = unix.Connect(fd, to)
			}
			for range each {
				if connected {
					_, sent := unix.Write(fd, []byte("x"))
					err = errors.Join(err, sent)
				} else {
					err = errors.Join(err, unix.Sendto(fd, []byte("x"), 0, to))
				}
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// datagramSocket opens a socket of a cgroup with the plane, in a namespace that receives at port 9
// of all loopback addresses.
func datagramSocket(t *testing.T, p *DataPlane) int {
	t.Helper()
	_, socket := chargedSockets(t, p)
	if err := unix.Bind(socket(unix.SOCK_DGRAM), &unix.SockaddrInet4{Port: 9}); err != nil { // never read
		t.Fatal(err)
	}
	return socket(unix.SOCK_DGRAM)
}
