// SPDX-License-Identifier: Apache-2.0

package police

import (
	"net/netip"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"weir/kernel/testutil"
)

// Packets of 200 wire octets, Ethernet header included, cost 25 ms at the lowest rate, so that
// nothing drains meanwhile.
const (
	shadowPayload4 = 200 - 14 - 20 - 8
	shadowPayload6 = 200 - 14 - 40 - 8
	shadowCost     = 25 * time.Millisecond
	shadowRounds   = 12 // random marks scatter by 1 % over all rounds
)

// For a load without feedback, shadow counts the same verdicts that enforcement applies.
func TestShadowAgreesWithEnforcement(t *testing.T) {
	for _, test := range []struct {
		name     string
		tos      uint8
		protocol byte
	}{{"UDP", 0, 17}, {"UDP with ECN", 2, 17}, {"TCP", 0, 6}, {"TCP with ECN", 2, 6}} {
		t.Run(test.name, func(t *testing.T) {
			both, one := datagram(t, false, test.tos, shadowPayload4), datagram(t, true, test.tos, shadowPayload6)
			both[14+9], one[14+6] = test.protocol, test.protocol
			p := plane(t, 2)
			if err := p.AssignPrefix(netip.MustParsePrefix("10.0.0.0/8"), 1); err != nil {
				t.Fatal(err)
			}
			shadow, enforced := offered(t, p, both, one, true), offered(t, p, both, one, false)
			for scope := range shadow {
				s, e := shadow[scope], enforced[scope]
				for _, count := range []struct {
					what   string
					shadow uint64
					real   uint64
				}{
					{"packets", s.Packets, e.Packets}, {"octets", s.Bytes, e.Bytes}, {"marked", s.Marked, e.Marked},
					{"reduced", s.Reduced, e.Reduced}, {"dropped", s.Dropped, e.Dropped},
				} {
					if !within(float64(count.shadow), float64(count.real), 0.05) && count.shadow+count.real > 0 {
						t.Errorf("scope %d, %s: %d in shadow, %d in force", scope, count.what, count.shadow, count.real)
					}
				}
				if e.Dropped == 0 || test.tos == 2 && e.Marked == 0 || test.tos == 0 && test.protocol == 6 && e.Reduced == 0 {
					t.Errorf("the load does not tell what is to be compared: %+v", e)
				}
			}
		})
	}
}

// offered sends the same packets in every round, about twice the admitted amount: two of three
// are charged to scope 0, the cgroup of all, and then to scope 1, their prefix; the others to scope
// 0 alone. Each scope drops some that the other admits.
func offered(t *testing.T, p *DataPlane, both, one []byte, shadow bool) (sum [2]Counters) {
	t.Helper()
	const parts, each = 40, 50
	before := [2]Counters{counters(t, p, 0), counters(t, p, 1)}
	for range shadowRounds {
		for scope, packets := range []time.Duration{2300, 1000} {
			l := Limit{Rate: MinRate, Burst: 4 * shadowCost, Mark: packets / 4 * shadowCost, Drop: packets * shadowCost,
				Reserve: 2 * shadowCost, Loopback: true, Shadow: shadow}
			// An empty queue.
			if err := p.objects.LimitStates.Put(uint32(2*scope), &limitLimitState{}); err != nil {
				t.Fatal(err)
			}
			if err := p.Set(scope, Egress, l); err != nil {
				t.Fatal(err)
			}
		}
		for range parts {
			for _, frame := range [][]byte{both, both, one} {
				verdict, err := p.objects.LimitEgress.Run(&ebpf.RunOptions{Data: frame, Repeat: each})
				if err != nil {
					testutil.Need(t, "BPF_PROG_TEST_RUN of cgroup_skb", err)
				}
				if shadow && verdict != pass {
					t.Fatalf("verdict %d in shadow", verdict)
				}
			}
		}
	}
	for scope := range sum {
		sum[scope] = counters(t, p, scope)
		sum[scope].Packets -= before[scope].Packets
		sum[scope].Bytes -= before[scope].Bytes
		sum[scope].Marked -= before[scope].Marked
		sum[scope].Reduced -= before[scope].Reduced
		sum[scope].Dropped -= before[scope].Dropped
	}
	return sum
}
