// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"math"
	"math/bits"
	"testing"
	"time"

	"weir/kernel/testutil"
	"weir/lab/link"
)

const many = 3000 // frames per measured share

// lossy sends many frames and returns which of them arrived, and the number of lost frames that the
// hosts sent themselves. It also checks the counters.
func lossy(t *testing.T, b *bench, d link.Direction) (arrived []bool, lost, others int) {
	t.Helper()
	carrying := b.carry(t, d, link.Direction{})
	_, got := exchange(t, b.a, b.b, numbered(many, 60), many, quietLoss)
	arrived = make([]bool, many)
	for _, a := range got {
		arrived[number(a)] = true
	}
	lost = many - len(got)
	s := status(t, carrying).Forward
	if s.Received < many || s.Overruns != 0 || s.QueueDrops != 0 {
		t.Errorf("of %d frames %d were received, %d overran, %d did not get into the queue", many, s.Received, s.Overruns, s.QueueDrops)
	}
	if s.LossDrops < uint64(lost) || s.Received-s.LossDrops != s.Sent {
		t.Errorf("%d frames are missing; the counters say %d lost of %d, %d sent", lost, s.LossDrops, s.Received, s.Sent)
	}
	return arrived, lost, int(s.LossDrops) - lost
}

func independent(t *testing.T, b *bench, d link.Direction) {
	_, lost, _ := lossy(t, b, d)
	p := d.Loss.Probability
	within(t, "lost frames", lost, many*p, math.Sqrt(many*p*(1-p)))
}

func gilbert(t *testing.T, b *bench, d link.Direction) {
	arrived, lost, _ := lossy(t, b, d)
	l := d.Loss
	bad := l.P / (l.P + l.R)
	share := bad*(1-l.H) + (1-bad)*(1-l.K)
	inflation := (2 - l.P - l.R) / (l.P + l.R)
	within(t, "lost frames", lost, many*share, math.Sqrt(many*share*(1-share)*inflation))
	pairs := 0
	for i := 1; i < many; i++ {
		if !arrived[i-1] && !arrived[i] {
			pairs++
		}
	}
	both := bad*(1-l.H)*((1-l.R)*(1-l.H)+l.R*(1-l.K)) + (1-bad)*(1-l.K)*(l.P*(1-l.H)+(1-l.P)*(1-l.K))
	within(t, "pairs of lost frames", pairs, many*both, math.Sqrt(many*both*inflation))
}

func everyNth(t *testing.T, b *bench, d link.Direction) {
	arrived, lost, others := lossy(t, b, d)
	// A frame of the host itself may come in between, or be the lost one. The pattern may then
	// start anywhere and shift, but keeps its distance.
	if want := many / d.Loss.Nth; lost+others < want-1 || lost > want+1 {
		t.Errorf("%d frames were lost, want %d", lost, want)
	}
	last, missing := -1, 0
	for i, ok := range arrived {
		if ok {
			continue
		}
		if last >= 0 {
			missing += (i - last - 1) / d.Loss.Nth
		}
		last = i
	}
	if missing > others {
		t.Errorf("%d frames were not lost where they should, %d of the hosts' own were", missing, others)
	}
}

func duplicate(t *testing.T, b *bench, d link.Direction) {
	b.carry(t, d, link.Direction{})
	_, got := exchange(t, b.a, b.b, numbered(many, 60), 2*many, quietLoss)
	seen := make([]int, many)
	for _, a := range got {
		seen[number(a)]++
	}
	for i, n := range seen {
		if n < 1 || n > 2 {
			t.Fatalf("frame %d arrived %d times", i, n)
		}
	}
	p := d.Duplicate
	within(t, "duplicates", len(got)-many, many*p, math.Sqrt(many*p*(1-p)))
}

func reorder(t *testing.T, b *bench, d link.Direction) {
	b.carry(t, d, link.Direction{})
	sent, got := exchange(t, b.a, b.b, numbered(many, 60), many, quiet)
	if len(got) != many {
		t.Errorf("%d frames arrived of %d", len(got), many)
	}
	early := 0
	for _, a := range got {
		if a.at-sent[number(a)] < d.Delay {
			early++
		}
	}
	within(t, "frames that were not delayed", early, many*d.Reorder, math.Sqrt(many*d.Reorder*(1-d.Reorder)))
}

func corrupt(t *testing.T, b *bench, d link.Direction) {
	b.carry(t, d, link.Direction{})
	const count, length = 200, 777 // a unique length
	frames := numbered(count, length)
	for _, f := range frames {
		must(t, b.a.Send(t.Context(), f))
	}
	buffer, got := make([]byte, 1<<16), 0
	for got < count {
		some, err := b.b.Wait(quietLoss)
		must(t, err)
		if !some {
			break
		}
		n, _, ok, err := b.b.Receive(buffer)
		must(t, err)
		if !ok || n != length {
			continue
		}
		if wrong := differing(buffer[:n], frames[got]); wrong != 1 {
			t.Fatalf("frame %d arrived with %d wrong bits, want 1", got, wrong)
		}
		got++
	}
	// After damage to a header the kernel may remove a VLAN tag or parse an 802.2 frame, with
	// another length.
	if got < count*9/10 {
		t.Errorf("%d frames arrived of %d", got, count)
	}
}

func differing(a, b []byte) (n int) {
	for i := range b {
		n += bits.OnesCount8(a[i] ^ b[i])
	}
	return n
}

func ecn(t *testing.T, b *bench, d link.Direction) {
	carrying := b.carry(t, d, link.Direction{})
	var frames [][]byte
	for i := range 60 {
		frames = append(frames, udp4(byte(i%3), uint16(i), 500), udp6(byte(i%3), 500)) // Not-ECT, ECT(1), ECT(0)
	}
	_, got := exchange(t, b.a, b.b, frames, len(frames), quiet)
	if len(got) != len(frames) {
		t.Fatalf("%d frames arrived of %d", len(got), len(frames))
	}
	marked := 0
	for i, a := range got {
		if bytes.Equal(a.frame, frames[i]) {
			continue
		}
		marked++
		capable := i/2%3 != 0
		if want := withCE(frames[i]); !capable || !bytes.Equal(a.frame, want) {
			t.Fatalf("frame %d (ECN-capable: %v) arrived as\n%x, was sent as\n%x", i, capable, a.frame, frames[i])
		}
	}
	if !bytes.Equal(got[2].frame, frames[2]) {
		t.Error("the first ECN-capable frame was marked, with an empty queue before it")
	}
	if s := status(t, carrying).Forward; marked == 0 || s.Marked != uint64(marked) {
		t.Errorf("%d frames are marked, the counters say %d", marked, s.Marked)
	}
}

func packets(t *testing.T, b *bench, d link.Direction) { overload(t, b, d, d.Queue.Packets) }

func octets(t *testing.T, b *bench, d link.Direction) { overload(t, b, d, int(d.Queue.Bytes)/1000) }

// overload sends a burst of 1000-byte frames at a queue with a capacity of limit.
func overload(t *testing.T, b *bench, d link.Direction, limit int) {
	carrying := b.carry(t, d, link.Direction{})
	const count = 60
	sent, got := exchange(t, b.a, b.b, numbered(count, 1000), count, quietLoss)
	each := time.Duration(1000+link.FrameOverhead) * 8 * time.Second / time.Duration(d.Rate)
	// One frame is on the wire, and a token bucket has sent one before. More leave while the burst
	// arrives.
	most := limit + 3 + int((sent[count-1]-sent[0])/each)
	if len(got) < limit || len(got) > most {
		t.Errorf("%d frames passed, want %d to %d", len(got), limit, most)
	}
	if n := overtaken(got); n > 0 {
		t.Errorf("%d frames were overtaken", n)
	}
	s := status(t, carrying).Forward
	if s.QueueDrops < uint64(count-len(got)) || s.QueueDrops+s.Sent != s.Received {
		t.Errorf("%d frames did not pass; the counters say %d dropped, %d sent of %d", count-len(got), s.QueueDrops, s.Sent, s.Received)
	}
}

func detach(t *testing.T, b *bench, d link.Direction) {
	conn := connect(t, b.ns)
	before, err := conn.Devices()
	must(t, err)
	for range 2 {
		carrying := b.carry(t, d, d)
		_, got := exchange(t, b.a, b.b, numbered(10, 100), 10, quiet)
		if len(got) != 10 {
			t.Errorf("%d frames arrived of 10", len(got))
		}
		must(t, carrying.Close())
		must(t, carrying.Close()) // closing twice is no error
	}
	if _, got := exchange(t, b.a, b.b, numbered(10, 100), 1, 100*time.Millisecond); len(got) > 0 {
		t.Error("frames pass a link that is closed")
	}
	for _, dev := range []string{endA, endB} {
		if kinds := qdiscs(t, b, dev); len(kinds) > 0 {
			t.Errorf("%s still has %v", dev, kinds)
		}
	}
	testutil.Eventually(t, 5*time.Second, "the carrier's own devices to go", func() bool {
		devices, err := conn.Devices()
		must(t, err)
		return len(devices) == len(before)
	})
}
