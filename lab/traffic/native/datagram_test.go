// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/internal/fault"
	"weir/kernel/testutil"
	"weir/lab/traffic"
)

func datagramFlow(streams int) traffic.Flow {
	return traffic.Flow{Name: "udp", Kind: traffic.Datagram, Streams: streams, Duration: 200 * time.Millisecond,
		Rate: 8_000_000, Payload: 500}
}

func TestDatagramsAddUp(t *testing.T) {
	p := newPath(t)
	for _, family := range []int{4, 6} {
		t.Run(fmt.Sprintf("IPv%d", family), func(t *testing.T) {
			f := datagramFlow(2)
			r := p.run(t, family, f)
			for i, s := range r.Streams {
				// 4 Mbit/s of 4000 bits each for 0.2 s are 200 datagrams; a busy machine may send
				// fewer, never more.
				if s.Sent == 0 || s.Sent > 200 || s.Arrived != s.Sent || s.Duplicates+s.OutOfOrder+s.ReceiverDrops != 0 {
					t.Errorf("stream %d: sent %d, arrived %d, duplicates %d, out of order %d, dropped %d",
						i, s.Sent, s.Arrived, s.Duplicates, s.OutOfOrder, s.ReceiverDrops)
				}
				if s.ReceivedBytes > s.Arrived*500 || s.ReceivedBytes%500 != 0 || sum(s.Received) != s.ReceivedBytes {
					t.Errorf("stream %d: %d bytes of %d datagrams", i, s.ReceivedBytes, s.Arrived)
				}
			}
			if r.Delay.Count() != r.Streams[0].Arrived+r.Streams[1].Arrived {
				t.Errorf("%d delays", r.Delay.Count())
			}
		})
	}
}

func TestPayloadAboveTheMTUIsRefused(t *testing.T) {
	p := newPath(t)
	for family, most := range map[int]int{4: 1472, 6: 1452} {
		f := datagramFlow(1)
		f.Payload = most
		p.run(t, family, f)
		f.Payload++
		_, err := New().Run(context.Background(), f, p.from[family], p.to[family])
		if fault.Of(err) != fault.Usage || !strings.Contains(fault.Advice(err), fmt.Sprint(most)) {
			t.Errorf("IPv%d: %v", family, err)
		}
	}
}

// TestLossEqualsTheQueuesDrops overflows a short queue and compares with tc's counters.
func TestLossEqualsTheQueuesDrops(t *testing.T) {
	tc := testutil.Command(t, "tc")
	p := newPath(t)
	ns := p.from[4].Namespace
	if text, err := inside(ns, tc, "qdisc", "add", "dev", "a", "root", "tbf", "rate", "4mbit", "burst", "5kb", "limit", "5kb"); err != nil {
		testutil.Need(t, "sch_tbf", fmt.Errorf("%w: %s", err, text))
	}
	r := p.run(t, 4, datagramFlow(1))
	var qdiscs []struct {
		Kind  string
		Drops uint64
	}
	text, err := inside(ns, tc, "-s", "-j", "qdisc", "show", "dev", "a")
	must(t, err)
	must(t, json.Unmarshal([]byte(text), &qdiscs))
	s := r.Streams[0]
	lost := s.Sent - s.Arrived
	// The queue may also drop a handful of the host's multicast reports after its device has come
	// up.
	if len(qdiscs) != 1 || lost == 0 || lost > qdiscs[0].Drops || qdiscs[0].Drops-lost > 5 || s.Duplicates+s.OutOfOrder != 0 {
		t.Errorf("sent %d, arrived %d, duplicates %d, out of order %d: tc has %+v", s.Sent, s.Arrived, s.Duplicates, s.OutOfOrder, qdiscs)
	}
}

func TestLostDatagramsAreMissed(t *testing.T) {
	p := newPath(t)
	f := datagramFlow(1)
	d, err := openDatagrams(f, p.from[4], p.to[4])
	must(t, err)
	defer d.close()
	plan := newSchedule(f.Rate, f.Payload, f.Duration)
	// The receiver waits for sequence numbers that are never sent: the schedule's count less those
	// sent here.
	d.arrivals, d.meter = newArrivals(plan.total), newMeter(time.Now(), time.Minute)
	received := make(chan error, 1)
	go func() { received <- d.receive(d.meter.begin) }()
	short := plan
	short.total = 7
	sent, err := d.transmit(context.Background(), short, f.Payload, d.meter.begin)
	must(t, err)
	d.sent = sent + 3
	must(t, d.drain(context.Background(), received))
	if s := d.stream(); s.Arrived != 7 || s.Sent != 10 || s.ReceivedBytes != 7*500 {
		t.Errorf("sent %d, arrived %d, %d bytes: want 10, 7 and 3500", s.Sent, s.Arrived, s.ReceivedBytes)
	}
}

// TestArrivalsAgainstAnOracle shuffles, drops and copies datagrams, and compares with counts over
// the whole list.
func TestArrivalsAgainstAnOracle(t *testing.T) {
	random := testutil.Rand(t)
	const total = 1000
	var order []uint64
	for n := range uint64(total) {
		for range random.IntN(3) { // 0: lost, 2: a copy
			at := max(0, len(order)-random.IntN(5))
			order = append(order[:at], append([]uint64{n}, order[at:]...)...)
		}
	}
	a := newArrivals(total)
	first := map[uint64]bool{}
	var duplicates, outOfOrder, highest uint64
	for i, n := range order {
		a.add(stamp{sequence: n, sent: time.Duration(i)}, time.Duration(i+5))
		switch {
		case first[n]:
			duplicates++
		case n+1 < highest:
			outOfOrder++
		}
		first[n] = true
		highest = max(highest, n+1)
	}
	if a.count.Load() != uint64(len(first)) || a.duplicates != duplicates || a.outOfOrder != outOfOrder {
		t.Errorf("arrived %d, duplicates %d, out of order %d: want %d, %d, %d",
			a.count.Load(), a.duplicates, a.outOfOrder, len(first), duplicates, outOfOrder)
	}
	if a.delay.Count() != uint64(len(first)) || a.delay.Max() != 5 || a.longest.Load() != 5 {
		t.Errorf("delays: %d, at most %d", a.delay.Count(), a.delay.Max())
	}
	if a.add(stamp{sequence: total}, 0) {
		t.Error("a sequence number that was never sent is taken for a datagram")
	}
}

func FuzzStamp(f *testing.F) {
	good := make([]byte, stampSize)
	stamp{sequence: 7, sent: time.Second}.put(good)
	f.Add(good)
	f.Add(good[:stampSize-1])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		s, ok := readStamp(b)
		if !ok {
			return
		}
		again := make([]byte, stampSize)
		s.put(again)
		if string(again) != string(b[:stampSize]) {
			t.Errorf("%x becomes %x", b[:stampSize], again)
		}
		a := newArrivals(64)
		if a.add(s, 0) != (s.sequence < 64) {
			t.Errorf("sequence %d of 64", s.sequence)
		}
	})
}

func TestScheduleSendsEveryDatagramOnce(t *testing.T) {
	random := testutil.Rand(t)
	plan := newSchedule(1_000_000, 125, time.Second) // one per millisecond
	if plan.total != 1000 || plan.due(10) != 10*time.Millisecond {
		t.Fatalf("%d datagrams, the tenth due at %s", plan.total, plan.due(10))
	}
	var sent uint64
	for now := time.Duration(0); now < 2*time.Second; now += time.Duration(random.IntN(5_000_000)) {
		ready := plan.ready(sent, now)
		if ready > 0 && plan.due(sent) > now {
			t.Fatalf("datagram %d is sent at %s, before it is due", sent, now)
		}
		sent += ready
	}
	if sent != plan.total {
		t.Errorf("%d datagrams of %d", sent, plan.total)
	}
}
