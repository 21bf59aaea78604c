// SPDX-License-Identifier: Apache-2.0

package police

import (
	"fmt"
	"net/netip"
	"testing"
	"time"
)

// A scope that charges each packet does not prevent prepayment in others.
func TestScopesAreChargedInAdvanceEachForItself(t *testing.T) {
	p := paired(t)
	for _, test := range []struct {
		name    string
		change  func(*Limit)
		queued  int
		held    bool
		advance [2]bool // the generous scope and the other
	}{
		{"all far from their limits", func(*Limit) {}, 0, false, [2]bool{true, true}},
		{"one behind half of its burst", func(*Limit) {}, 9 * quotaMost, false, [2]bool{true, false}},
		{"one held by its fair rate", func(*Limit) {}, 0, true, [2]bool{true, false}},
		{"one that allows less than two packets", func(l *Limit) { l.Burst = 20 * quotaCost }, 0, false, [2]bool{true, false}},
		{"one of the classic algorithm", func(l *Limit) { l.Classic = true }, 0, false, [2]bool{true, false}},
		{"one in shadow, all far", func(l *Limit) { l.Shadow = true }, 0, false, [2]bool{true, true}},
		{"one in shadow and held", func(l *Limit) { l.Shadow = true }, 0, true, [2]bool{true, false}},
	} {
		for generousScope := range 2 {
			t.Run(fmt.Sprintf("%s, the generous one %d", test.name, generousScope), func(t *testing.T) {
				other := generous()
				test.change(&other)
				lavish(t, p, generousScope, 0, false, generous())
				lavish(t, p, 1-generousScope, test.queued, test.held, other)
				const packets = 60
				charged := chargedInAdvance(t, p, packets)
				for scope := range 2 {
					if advance := test.advance[scope^generousScope]; advance != charged[scope] {
						t.Errorf("scope %d: charged in advance %t, want %t", scope, charged[scope], advance)
					}
				}
			})
		}
	}
}

// A quota has the overhead of the first scope only.
func TestScopesThatCountOtherOctetsAreChargedForEachPacket(t *testing.T) {
	p := paired(t)
	other := generous()
	other.Overhead = EthernetHeader + 4
	lavish(t, p, 0, 0, false, generous())
	lavish(t, p, 1, 0, false, other)
	if charged := chargedInAdvance(t, p, 60); charged != [2]bool{true, false} {
		t.Errorf("charged in advance: %t", charged)
	}
}

// paired returns a data plane with two scopes for each packet.
func paired(t *testing.T) *DataPlane {
	t.Helper()
	p := plane(t, 2)
	needStorage(t, p)
	if err := p.AssignPrefix(netip.MustParsePrefix("10.0.0.0/8"), 1); err != nil {
		t.Fatal(err)
	}
	return p
}

// chargedInAdvance sends packets through one socket and reports which of two scopes was charged for
// more; both must be charged for all and count all.
func chargedInAdvance(t *testing.T, p *DataPlane, packets int) (advance [2]bool) {
	t.Helper()
	var finish [2]int64
	var before [2]Counters
	for scope := range 2 {
		finish[scope], before[scope] = stateOf(t, p, scope).FinishNs, counters(t, p, scope)
	}
	stream(t, p, 0, packets)
	for scope := range 2 {
		charged, c := packetsCharged(stateOf(t, p, scope).FinishNs-finish[scope]), counters(t, p, scope)
		if charged < packets || charged > packets+quotaMost {
			t.Errorf("scope %d was charged for %d packets, sent %d", scope, charged, packets)
		}
		if n := c.Packets - before[scope].Packets; n != uint64(packets) || c.Bytes-before[scope].Bytes < 1000*n {
			t.Errorf("scope %d counted %d packets and %d octets of %d packets", scope, n, c.Bytes-before[scope].Bytes, packets)
		}
		advance[scope] = charged > packets
	}
	return advance
}

// Other scopes are not charged for packets that a near scope drops, and each byte is measured once.
func TestDroppedPacketsUseNoQuota(t *testing.T) {
	p := paired(t)
	near := generous()
	near.Classic, near.Reserve = true, time.Nanosecond
	const capacity, packets = 30, 200 // packets in the near scope's queue; packets sent, the rest is rejected
	for farScope := range 2 {
		nearScope := 1 - farScope
		lavish(t, p, farScope, 0, false, generous())
		lavish(t, p, nearScope, 16*quotaMost+200-capacity, false, near)
		began := time.Now()
		finish, before, refused := stateOf(t, p, farScope).FinishNs, counters(t, p, farScope), counters(t, p, nearScope)
		stream(t, p, nearScope, packets)
		far, c := stateOf(t, p, farScope), counters(t, p, farScope)
		passed := int(c.Packets - before.Packets)
		if passed < capacity || passed > capacity+int(drained(began)) {
			t.Errorf("%d packets passed, the queue holds %d", passed, capacity)
		}
		if n := int(counters(t, p, nearScope).Dropped - refused.Dropped); n != packets-passed {
			t.Errorf("%d packets refused, %d of %d passed", n, passed, packets)
		}
		if charged := packetsCharged(far.FinishNs - finish); charged < passed || charged > passed+quotaMost {
			t.Errorf("scope %d was charged for %d packets, %d passed", farScope, charged, passed)
		}
		if measured := int(far.IntervalBytes); measured > 1000*packets || measured < 1000*(passed-quotaMost) {
			t.Errorf("scope %d measured %d octets, %d packets of 1000 passed", farScope, measured, passed)
		}
	}
}
