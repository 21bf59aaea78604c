// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"encoding/json"
	"testing"
	"time"

	"weir/internal/testutil"
)

// setCounted has so many TCP senders met in a scope at egress.
func setCounted(t *testing.T, p *DataPlane, senders uint32) {
	t.Helper()
	var sharing limitLimitFairShare
	if err := p.objects.LimitShares.Lookup(uint32(0), &sharing); err != nil {
		t.Fatal(err)
	}
	sharing.Counted = senders
	if err := p.objects.LimitShares.Put(uint32(0), &sharing); err != nil {
		t.Fatal(err)
	}
}

// intervalBytes are the octets offered in a scope's interval at egress.
func intervalBytes(t *testing.T, p *DataPlane) uint64 {
	t.Helper()
	var state limitLimitState
	if err := p.objects.LimitStates.Lookup(uint32(0), &state); err != nil {
		t.Fatal(err)
	}
	return state.IntervalBytes
}

// A slow sender with nothing in flight passes a full queue once in the time of a segment, and then
// waits for its next turn: it is refused, which is offered once, and passes with a probe. A fast
// one, to which the probe timer is long, is not refused.
func TestSlowSendersPassAFullQueueInTurns(t *testing.T) {
	for name, c := range map[string]struct {
		senders uint32 // that share 100 Mbit/s
		refused bool
	}{"slow": {10_000, true}, "fast": {100, false}} {
		t.Run(name, func(t *testing.T) {
			l := modes()["paced"]
			a := newAsker(t, l)
			needStorage(t, a.plane)
			fill(t, a.plane, 0, 2*l.Drop)
			setCounted(t, a.plane, c.senders)
			before, offered := counters(t, a.plane, 0), intervalBytes(t, a.plane)
			for range 2 {
				a.tell(t, 1000)
				a.answered(t)
			}
			after := counters(t, a.plane, 0)
			if (after.Refused > before.Refused) != c.refused {
				t.Errorf("%d packets were refused, want some: %v", after.Refused-before.Refused, c.refused)
			}
			if n := after.Forced - before.Forced; n < 2 {
				t.Errorf("%d packets were forced, want both messages", n)
			}
			if got, want := intervalBytes(t, a.plane)-offered, after.Bytes-before.Bytes; got != want {
				t.Errorf("%d octets were offered, want the %d that were admitted", got, want)
			}
		})
	}
}

// The last part below the ceiling is not for data of slow senders, so that connections begin where
// those have filled all else.
func TestConnectionsBeginWhereDataHasFilledTheQueue(t *testing.T) {
	client, server, address := path(t)
	l := Limit{Rate: 100_000_000, Burst: time.Millisecond, Mark: 10 * time.Second, Drop: 20 * time.Second}
	p, process := limited(t, l, Limit{Rate: MaxRate})
	needStorage(t, p)
	fill(t, p, 0, 15*l.Drop/4)
	setCounted(t, p, 10_000)
	work := task{Namespace: client.Name, Network: "tcp", Address: swallow(t, server, address), Messages: 1, Size: 100}
	if err := json.NewEncoder(process.In).Encode(work); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, 10*time.Second, "the data to be refused", func() bool { return counters(t, p, 0).Refused > 0 })
	if n := netCount(t, client, "netstat", "TCPSynRetrans"); n > 0 {
		t.Errorf("the request was sent %d times more", n)
	}
	if c := counters(t, p, 0); c.Forced < 2 {
		t.Errorf("%d packets were forced, want the request and the acknowledgement: %+v", c.Forced, c)
	}
	fill(t, p, 0, 0)
	if err := process.Wait(); err != nil {
		t.Fatal(err)
	}
}
