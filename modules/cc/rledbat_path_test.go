// SPDX-License-Identifier: Apache-2.0

package cc

import (
	"container/heap"
	"fmt"
	"math"
	"testing"
	"time"

	"weir/modules/cc/internal/steps"
)

// bottleneck is a simulated path with its own clock: a link with a rate and a drop-tail queue,
// behind a forward delay, and a reverse delay without a queue.
type bottleneck struct {
	now    time.Duration
	coming timeline
	rate   float64 // bytes/s
	most   float64 // bytes: the queue
	oneWay time.Duration
	train  float64       // segments that senders send in one burst, like TSO; 0 for none
	think  time.Duration // reply time of the application; its first data echoes an older timestamp
	clump  time.Duration // interval at which acknowledgments arrive together; 0 for each by itself
	free   time.Duration // end of the last transmission
}

type event struct {
	at  time.Duration
	do  func()
	seq int
}

type timeline []event

func (e timeline) Len() int { return len(e) }
func (e timeline) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e timeline) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *timeline) Push(x any)   { *e = append(*e, x.(event)) }
func (e *timeline) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

var eventCount int

func (b *bottleneck) after(d time.Duration, do func()) {
	eventCount++
	heap.Push(&b.coming, event{b.now + d, do, eventCount})
}

func (b *bottleneck) run(until time.Duration) {
	for len(b.coming) > 0 && b.coming[0].at <= until {
		next := heap.Pop(&b.coming).(event)
		b.now = next.at
		next.do()
	}
	b.now = until
}

func (b *bottleneck) waits() time.Duration { return max(0, b.free-b.now) }

// send transmits a packet of a size in bytes, unless the queue is full.
func (b *bottleneck) send(octets float64, arrives func()) {
	if b.waits().Seconds()*b.rate+octets > b.most {
		return
	}
	b.free = max(b.free, b.now) + time.Duration(octets/b.rate*1e9)
	b.after(b.free-b.now+b.oneWay, arrives)
}

const simulatedSegment = 1448

// download is a TCP connection with CUBIC at its sender. rLEDBAT controls its receiver unless s is
// nil.
type download struct {
	t    *testing.T
	path *bottleneck
	s    *stepper

	// sender
	cwnd, ssthresh, wmax float64 // segments
	epoch                time.Duration
	una, nxt, edge       uint32 // segments
	sacked, resent       map[uint32]bool
	high, recover        uint32 // highest selectively acknowledged; end of recovery
	echo                 uint32 // ms
	timer                time.Duration
	stopped              bool

	// receiver
	next, right, unacked uint32          // segments
	came                 map[uint32]bool // beyond a hole
	tsval, echoed        uint32
	paused               bool // the last window was below a segment
	octets               float64
	queued               time.Duration // max. queueing delay of a packet
}

func (b *bottleneck) download(t *testing.T, s *stepper) *download {
	d := &download{t: t, path: b, s: s, cwnd: 10, ssthresh: 1e9, edge: 10, right: 10,
		sacked: map[uint32]bool{}, resent: map[uint32]bool{}, came: map[uint32]bool{}}
	if s != nil {
		s.step(t, d.ack(0))
	}
	if b.think > 0 {
		d.echo = 1 // ms
	}
	b.after(b.think, d.pump)
	b.after(time.Second, d.timeout)
	return d
}

func milliseconds(d time.Duration) uint32 { return uint32(d / time.Millisecond) }

// pump sends as much as the windows allow.
func (d *download) pump() {
	flight := func() float64 { return float64(d.nxt-d.una) - float64(len(d.sacked)) }
	if flight() > 0 && math.Min(math.Floor(d.cwnd)-flight(), float64(d.edge)-float64(d.nxt)) < math.Min(d.path.train, d.cwnd/4) {
		return
	}
	for !d.stopped && flight() < math.Floor(d.cwnd) && d.nxt < d.edge {
		d.transmit(d.nxt)
		d.nxt++
	}
}

func (d *download) transmit(segment uint32) {
	d.timer = d.path.now
	tsval, echo, waits := milliseconds(d.path.now)+5000, d.echo, d.path.waits()
	d.path.send(simulatedSegment+66, func() {
		d.queued = max(d.queued, waits)
		d.arrive(segment, tsval, echo)
	})
}

// timeout restarts from the first segment after a long time without acknowledgments.
func (d *download) timeout() {
	if d.nxt > d.una && d.path.now-d.timer > 300*time.Millisecond {
		d.ssthresh, d.cwnd, d.recover, d.nxt, d.high = math.Max(2, d.cwnd/2), 1, d.una, d.una, 0
		d.resent, d.sacked = map[uint32]bool{}, map[uint32]bool{}
		d.pump()
	}
	// The persist timer of a sender that the window stops.
	if d.s != nil && d.s.shared != nil && d.nxt == d.una && d.edge <= d.nxt && d.path.now-d.timer > 240*time.Millisecond {
		d.transmit(d.nxt)
		d.nxt++
	}
	d.path.after(100*time.Millisecond, d.timeout)
}

// arrive processes a segment at the receiver, which acknowledges every second segment, and at once
// those that leave or fill a hole.
func (d *download) arrive(segment, tsval, echo uint32) {
	d.octets += simulatedSegment
	holes := len(d.came) > 0
	if segment >= d.next {
		d.came[segment] = true
	}
	for d.came[d.next] {
		delete(d.came, d.next)
		d.next++
		d.unacked++
	}
	d.tsval = tsval
	if d.unacked >= 2 || holes || len(d.came) > 0 || segment < d.next-1 {
		d.acknowledge(echo)
	} else {
		d.path.after(40*time.Millisecond, func() {
			if d.unacked > 0 && d.next-1 == segment {
				d.echoed = max(d.echoed, echo) // like the kernel's hook, without an RTT sample
				d.acknowledge(echo)
			}
		})
	}
}

func (d *download) ack(echo uint32) steps.Ack {
	ack := steps.Ack{Now: uint32(d.path.now / tick), Next: d.next * simulatedSegment, Edge: d.right * simulatedSegment, Mss: simulatedSegment, Tsval: d.tsval}
	if len(d.came) > 0 {
		ack.Hole = 1
	}
	if d.paused {
		ack.Paused = 1
	}
	if echo > d.echoed {
		d.echoed = echo
		ack.Rtt = uint32((d.path.now - time.Duration(echo)*time.Millisecond).Microseconds())
	}
	return ack
}

func (d *download) acknowledge(echo uint32) {
	d.unacked = 0
	window := uint32(128) // larger than the path and its queue
	if d.s != nil {
		step := d.s.step(d.t, d.ack(echo))
		window = max(uint32(step.State.Window>>16/simulatedSegment), 2*step.Share.Measures)
		d.paused = window == 0
	}
	d.right = max(d.right, d.next+window)
	next, right, stamp := d.next, d.right, milliseconds(d.path.now)
	var high uint32
	came := map[uint32]bool{}
	for segment := range d.came {
		came[segment] = true
		high = max(high, segment)
	}
	back := d.path.oneWay
	if clump := d.path.clump; clump > 0 {
		back += clump - (d.path.now+back)%clump
	}
	d.path.after(back, func() { d.acknowledged(next, right, high, came, stamp) })
}

// acknowledged processes an acknowledgment at the sender.
func (d *download) acknowledged(next, right, high uint32, came map[uint32]bool, stamp uint32) {
	d.echo = max(d.echo, stamp)
	d.edge = max(d.edge, right)
	d.high = max(d.high, high)
	for segment := range came {
		if segment >= d.una {
			d.sacked[segment] = true
		}
	}
	acked := 0.0
	for d.una < next {
		delete(d.sacked, d.una)
		delete(d.resent, d.una)
		d.una++
		acked++
		d.timer = d.path.now
	}
	d.nxt = max(d.nxt, d.una) // after a spurious restart
	for segment := d.una; segment+3 <= d.high && segment < d.nxt; segment++ {
		if d.sacked[segment] || d.resent[segment] {
			continue
		}
		if segment >= d.recover {
			d.recover = d.nxt
			d.wmax, d.epoch = d.cwnd, d.path.now
			d.cwnd = math.Max(2, d.cwnd*0.7)
			d.ssthresh = d.cwnd
		}
		d.resent[segment] = true
		d.transmit(segment)
	}
	if d.una >= d.recover && float64(d.nxt-d.una)+acked >= d.cwnd/2 {
		d.grow(acked)
	}
	d.pump()
}

// grow is slow start, or CUBIC's growth (RFC 9438, sections 4.2 and 4.3).
func (d *download) grow(acked float64) {
	if d.cwnd < d.ssthresh {
		d.cwnd += acked
		return
	}
	t, rtt := (d.path.now - d.epoch).Seconds(), (2*d.path.oneWay + d.path.waits()).Seconds()
	k := math.Cbrt(d.wmax * 0.3 / 0.4)
	target := math.Max(0.4*math.Pow(t+rtt-k, 3)+d.wmax, d.wmax*0.7+0.53*t/rtt)
	if target > d.cwnd {
		d.cwnd += math.Min((target-d.cwnd)/d.cwnd, 0.5) * acked
	}
}

// measure returns the bytes per second received during a time.
func (d *download) measure(from, until time.Duration) float64 {
	d.path.run(from)
	before := d.octets
	d.path.run(until)
	return (d.octets - before) / (until - from).Seconds()
}

// fits is the capacity of such a path, relative to its rate.
const fits = float64(simulatedSegment) / (simulatedSegment + 66)

// TestDownloadsYield runs a download alone, beside one without rLEDBAT, and alone again, on a path
// with a queue of one bandwidth-delay product.
func TestDownloadsYield(t *testing.T) {
	path := func() *bottleneck {
		return &bottleneck{rate: 2.5e6 * fits, most: 50_000, oneWay: 10 * time.Millisecond}
	}
	free := path()
	most := free.download(t, nil).measure(3*time.Second, 13*time.Second)
	for name, least := range map[string]struct{ alone, production, back float64 }{
		"rledbat":   {0.80, 0.75, 0.80}, // its target is longer than the queue
		"scavenger": {0.80, 0.95, 0.80},
	} {
		t.Run(name, func(t *testing.T) {
			path := path()
			held := path.download(t, newStepper(t, name))
			alone := held.measure(2*time.Second, 8*time.Second) / most
			production := path.download(t, nil)
			path.run(12 * time.Second)
			before := held.octets
			beside := production.measure(12*time.Second, 22*time.Second) / most
			taken := (held.octets - before) / 10 / most
			production.stopped = true
			back := held.measure(27*time.Second, 32*time.Second) / most
			t.Logf("alone %.3f; production beside it %.3f, it %.3f; back %.3f", alone, beside, taken, back)
			if alone < least.alone || beside < least.production || back < least.back {
				t.Errorf("want at least %+v", least)
			}
			for _, phase := range []Phase{SlowStart, Avoidance, Drain, Climb} {
				if held.s.seen[phase] == 0 {
					t.Errorf("it never was in phase %d", phase)
				}
			}
		})
	}
}

// TestDownloadsShareAWindow runs many downloads of one command beside one without rLEDBAT, which
// keeps 95 % of its rate alone, and alone again.
func TestDownloadsShareAWindow(t *testing.T) {
	path := func() *bottleneck {
		return &bottleneck{rate: 2.5e6 * fits, most: 50_000, oneWay: 10 * time.Millisecond}
	}
	free := path()
	most := free.download(t, nil).measure(3*time.Second, 13*time.Second)
	made := newSteps(t)
	for _, n := range []int{1, 2, 4, 8, 16} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			path, shared := path(), steps.NewShared(0)
			var held []*download
			for range n {
				s := newStepperOf(made, "scavenger")
				s.shared = shared
				held = append(held, path.download(t, s))
				path.run(path.now + 10*time.Millisecond)
			}
			sum := func(from, until time.Duration) (octets float64) {
				path.run(from)
				for _, d := range held {
					octets -= d.octets
				}
				path.run(until)
				for _, d := range held {
					octets += d.octets
				}
				return octets / (until - from).Seconds() / most
			}
			alone := sum(4*time.Second, 10*time.Second)
			production := path.download(t, nil)
			early := production.measure(11*time.Second, 14*time.Second) / most
			beside := production.measure(14*time.Second, 24*time.Second) / most
			before := held[0].octets
			production.stopped = true
			back := sum(26*time.Second, 31*time.Second)
			t.Logf("alone %.3f; production beside them %.3f at first, then %.3f; back %.3f, the first %.3f", alone, early, beside, back, (held[0].octets-before)/7/most)
			if alone < 0.80 || beside < 0.95 || back < 0.80 {
				t.Error("want 80 % alone, 95 % for production, 80 % again")
			}
		})
	}
}

// TestDownloadsFillIdlePaths runs a download alone with bursts that wait longer than scavenger's
// target without a standing queue: slow start, trains of segments, and merged acknowledgments.
func TestDownloadsFillIdlePaths(t *testing.T) {
	long := bottleneck{rate: 6.25e6 * fits, most: 937_500, oneWay: 75 * time.Millisecond}
	trains, clumps, shallow, short := long, long, long, bottleneck{rate: 12.5e6 * fits, most: 250_000, oneWay: 10 * time.Millisecond}
	late := long
	trains.train, clumps.clump, shallow.most, late.think = 8, 4*time.Millisecond, 187_500, 300*time.Millisecond
	for name, path := range map[string]bottleneck{"long": long, "late": late, "trains": trains, "clumps": clumps, "shallow": shallow, "short": short} {
		t.Run(name, func(t *testing.T) {
			held := path.download(t, newStepper(t, "scavenger"))
			early := held.measure(0, 7*time.Second) / path.rate / fits
			taken := held.measure(7*time.Second, 14*time.Second) / path.rate / fits
			t.Logf("it has %.3f of the path in its first seven seconds, then %.3f; a packet waited %v at most", early, taken, held.queued)
			if early < 0.35 || taken < 0.85 {
				t.Error("want 35 %, then 85 %")
			}
		})
	}
}
