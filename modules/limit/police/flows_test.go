// SPDX-License-Identifier: Apache-2.0

package police

import (
	"encoding/json"
	"testing"
	"time"

	"weir/internal/units"
	"weir/kernel/clock"
	"weir/kernel/testutil"
)

// endedInterval sends the packet that ends an interval with the given number of TCP senders, and
// returns the new state. The interval took a second, or its minimum length if longer, unless the
// state has its start.
func endedInterval(t *testing.T, rate units.BitRate, counted uint32, state limitLimitState) (limitLimitState, limitLimitFairShare) {
	t.Helper()
	return endedIntervalOf(t, Limit{Rate: rate}, limitLimitFairShare{Counted: counted}, state)
}

func endedIntervalOf(t *testing.T, l Limit, sharing limitLimitFairShare, state limitLimitState) (limitLimitState, limitLimitFairShare) {
	t.Helper()
	l.Loopback = true
	p := plane(t, 1)
	if err := p.Set(0, Egress, l); err != nil {
		t.Fatal(err)
	}
	if state.IntervalStartNs == 0 {
		state.IntervalStartNs = uint64(clock.Now() - max(int64(time.Second), int64(state.MinIntervalNs)))
	}
	if err := p.objects.LimitStates.Put(uint32(0), &state); err != nil {
		t.Fatal(err)
	}
	if err := p.objects.LimitShares.Put(uint32(0), &sharing); err != nil {
		t.Fatal(err)
	}
	send(t, p.objects.LimitEgress, datagram(t, false, 0, payload4))
	if err := p.objects.LimitStates.Lookup(uint32(0), &state); err != nil {
		t.Fatal(err)
	}
	if err := p.objects.LimitShares.Lookup(uint32(0), &sharing); err != nil {
		t.Fatal(err)
	}
	return state, sharing
}

// A low fair rate rises at once to nearly an equal share without a queue, and to half of one with a
// standing queue. Without known senders only the factor changes it.
func TestFairRateIsNoLessThanItsSendersNeed(t *testing.T) {
	const octets = 12_500_000 // a second's at 100 Mbit/s
	for name, c := range map[string]struct {
		senders     uint32
		bytes       uint64        // offered in a second
		queue       time.Duration // the shortest that a packet has met
		least, most uint64        // octet/s
	}{
		"no queue":       {100, octets / 2, 0, octets / 110, octets / 100},
		"standing queue": {100, octets * 3 / 4, 20 * time.Millisecond, octets / 204, octets / 200},
		"in use":         {100, octets * 9 / 10, 0, octets / 204, octets / 200},
		"no senders":     {0, octets * 3 / 4, 20 * time.Millisecond, octets / 1050, octets / 800},
	} {
		state := limitLimitState{FairRate: octets / 1000, IntervalBytes: c.bytes, IntervalQueueNs: int64(c.queue)}
		if c.queue > 0 {
			state.FinishNs = clock.Now() + int64(time.Second)
		}
		got, sharing := endedInterval(t, 8*octets, c.senders, state)
		if got.FairRate < c.least || got.FairRate > c.most {
			t.Errorf("%s: the fair rate is %d octet/s, want %d to %d", name, got.FairRate, c.least, c.most)
		}
		if sharing.Senders != c.senders || sharing.Counted != 0 {
			t.Errorf("%s: the flow count has met %d, and the next begins with %d", name, sharing.Senders, sharing.Counted)
		}
	}
}

// A flow count spans intervals until all senders may have sent: at least 16 super-packets, and 1.5
// per sender.
func TestFlowCountWaitsForEverySendersTurn(t *testing.T) {
	for _, c := range []struct {
		bytes, largest uint64
		counted        uint32
		before         uint32 // senders of the last flow count
		ended          bool
	}{
		{20 * packet, packet, 2, 0, true},
		{10 * packet, packet, 2, 0, false},
		{20 * packet, packet, 18, 0, false},
		{20 * packet, 4 * packet, 2, 0, false},
		{20 * packet, packet, 2, 100, true},
	} {
		before := limitLimitFairShare{Counted: c.counted, Senders: c.before}
		got, sharing := endedIntervalOf(t, Limit{Rate: 10_000_000}, before, limitLimitState{IntervalBytes: c.bytes, IntervalLargest: c.largest})
		if ended := got.FlowCount == 1; ended != c.ended || (sharing.Senders == c.counted) != c.ended || (sharing.FlowCountBytes == 0) != c.ended {
			t.Errorf("%+v: flow count %d, %+v", c, got.FlowCount, sharing)
		}
	}
}

// An interval slightly above the maximum is no silence, which would reset the senders.
func TestSendersAreKnownForAnInterval(t *testing.T) {
	for ago, want := range map[time.Duration]uint32{4500 * time.Millisecond: 100, 9 * time.Second: 0} {
		state := limitLimitState{MinIntervalNs: uint64(ago)}
		if _, sharing := endedIntervalOf(t, Limit{Rate: 1_000_000}, limitLimitFairShare{Senders: 100}, state); sharing.Senders != want {
			t.Errorf("after %s: %d senders, want %d", ago, sharing.Senders, want)
		}
	}
}

// A packet with a clock reading before the start of the interval (interrupt or another CPU) ends no
// interval of 2^64 ns, which would reset the senders and the fair rate.
func TestAnIntervalThatBeganLaterIsNotOver(t *testing.T) {
	began := limitLimitState{IntervalStartNs: uint64(clock.Now() + int64(time.Hour)), FairRate: 1_000_000}
	got, sharing := endedIntervalOf(t, Limit{Rate: 100_000_000}, limitLimitFairShare{Senders: 10}, began)
	if got.IntervalStartNs != began.IntervalStartNs || got.FairRate != began.FairRate || got.Updates != 0 || sharing.Senders != 10 {
		t.Errorf("the packet ended the interval: %+v, %+v", got, sharing)
	}
	if got.IntervalBytes == 0 {
		t.Error("the packet was not counted in the interval")
	}
}

// The interval covers two of the largest super-packets at the fair rate, or two segment pairs at a
// low rate. Longer super-packets, of flows without a cwnd bound, add at most a quarter of a second.
func TestOneLongSuperPacketDoesNotStopTheFairRate(t *testing.T) {
	const rate = 40_000 // octet/s of a flow
	for largest, want := range map[uint64]time.Duration{
		packet:     4 * packet * time.Second / rate,
		2 * packet: 4 * packet * time.Second / rate,
		3 * packet: 250 * time.Millisecond,
		64 << 10:   250 * time.Millisecond,
	} {
		state := limitLimitState{FairRate: rate, IntervalBytes: 1_240_000, IntervalLargest: largest, IntervalQueueNs: int64(time.Millisecond)}
		got, _ := endedInterval(t, 10_000_000, 0, state)
		// The rate itself moves a little.
		if interval := time.Duration(got.MinIntervalNs); interval < want*9/10 || interval > want*11/10 {
			t.Errorf("after a super-packet of %d octets the interval is %s, want %s", largest, interval, want)
		}
	}
}

// TCP repeats a rejected SYN after half a second at the earliest, without ECN, and gives up after
// ten. A SYN passes the full queue of other senders, like packets of senders with nothing else in
// flight.
func TestConnectionRequestsPassAFullQueue(t *testing.T) {
	client, server, address := path(t)
	l := Limit{Rate: 100_000_000, Burst: time.Millisecond, Mark: 10 * time.Second, Drop: 20 * time.Second}
	p, process := limited(t, l, Limit{Rate: MaxRate})
	needStorage(t, p)
	fill(t, p, 0, 2*l.Drop)
	work := task{Namespace: client.Name, Network: "tcp", Address: swallow(t, server, address), Messages: 1, Size: 100}
	if err := json.NewEncoder(process.In).Encode(work); err != nil {
		t.Fatal(err)
	}
	if err := process.Wait(); err != nil {
		t.Fatal(err)
	}
	if n := netCount(t, client, "netstat", "TCPSynRetrans"); n > 0 {
		t.Errorf("the request was sent %d times more", n)
	}
	if c := counters(t, p, 0); c.Forced < 2 {
		t.Errorf("%d packets were forced, want the request and the data: %+v", c.Forced, c)
	}
}

// A flow with less than a segment per mark threshold sends single segments; two are tolerated if
// other processes lengthen the RTT.
func TestSlowFlowsSendSingleSegments(t *testing.T) {
	testutil.NeedInstructionClock(t)
	client, server, address := path(t)
	p, process := limited(t, Limit{Rate: 10_000_000, Mark: 500 * time.Microsecond}, Limit{Rate: MaxRate})
	delivered(t, process, client, server, address, 8, 16<<10)
	if c := counters(t, p, 0); c.Segments < 80 || 10*c.Segments > 11*c.Packets {
		t.Errorf("%d segments in %d super-packets, want one in nearly all", c.Segments, c.Packets)
	}
}
