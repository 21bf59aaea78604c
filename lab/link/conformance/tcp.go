// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"weir/kernel/netns"
	"weir/kernel/probe"
	"weir/kernel/sysctl"
	"weir/kernel/tc"
	"weir/kernel/testutil"
	"weir/lab/link"
)

// tcpSegments sends TCP through the link: the hosts' super-packets must arrive at the link as
// single frames.
func tcpSegments(t *testing.T, b *bench, d link.Direction) {
	const octets = 2 << 20
	carrying := b.carry(t, d, d)
	transfer(t, b, octets)
	s := status(t, carrying)
	if s.Forward.Received < octets/1460 {
		t.Errorf("%d bytes of payload came in %d frames: some were larger than an MTU", octets, s.Forward.Received)
	}
	if s.Forward.SentBytes > 1514*s.Forward.Sent {
		t.Errorf("%d frames have %d bytes: some are larger than an MTU", s.Forward.Sent, s.Forward.SentBytes)
	}
	if s.Forward.Overruns+s.Reverse.Overruns > 0 {
		t.Errorf("%d frames overran", s.Forward.Overruns+s.Reverse.Overruns)
	}
}

// tcpQueue sends TCP into a short queue: it must grow until it overflows. If the sender's socket
// were charged for the frames in the link, TCP small queues would stop the sender earlier, unlike
// on a real path.
func tcpQueue(t *testing.T, b *bench, d link.Direction) {
	carrying := b.carry(t, d, link.Direction{Delay: d.Delay})
	transfer(t, b, 4<<20)
	if s := status(t, carrying); s.Forward.QueueDrops == 0 {
		t.Errorf("a queue of %d bytes and %d packets never overflowed", d.Queue.Bytes, d.Queue.Packets)
	}
}

// managed sends TCP into a queue with an AQM discipline. It must drop long before the queue is
// full, account for every frame, and keep the queue short.
func managed(t *testing.T, b *bench, d link.Direction) {
	b.needDiscipline(t, d.Queue.Discipline)
	carrying := b.carry(t, d, link.Direction{Delay: d.Delay})
	transfer(t, b, 1<<20)
	var s link.Counters
	testutil.Eventually(t, 5*time.Second, "an empty link", func() bool {
		s = status(t, carrying).Forward
		return s.Held == 0 && s.Received == s.Sent+s.QueueDrops // a frame may pass between two counters
	})
	if s.QueueDrops == 0 {
		t.Errorf("%s dropped nothing of a transfer that takes four seconds", d.Queue.Discipline)
	}
	if most := uint64(d.Queue.Packets) * 1514 / 4; s.MaxBacklog > most {
		t.Errorf("%d bytes waited, though %s manages the queue", s.MaxBacklog, d.Queue.Discipline)
	}
}

// marks sends TCP with ECN into a queue with a discipline that marks instead of dropping. It checks
// the count of marks, and samples the queue length meanwhile.
func marks(t *testing.T, b *bench, d link.Direction) {
	b.needDiscipline(t, d.Queue.Discipline)
	for _, ns := range []*netns.Namespace{b.left, b.right} {
		must(t, sysctl.Set(ns, "net.ipv4.tcp_ecn", "1"))
		t.Cleanup(func() { _ = sysctl.Set(ns, "net.ipv4.tcp_ecn", "2") })
	}
	carrying := b.carry(t, d, link.Direction{Delay: d.Delay})
	must(t, carrying.Begin())
	transfer(t, b, 1<<20)
	if s := status(t, carrying).Forward; s.Marked == 0 {
		t.Errorf("%s marked nothing of a transfer that takes four seconds, and dropped %d", d.Queue.Discipline, s.QueueDrops)
	}
	testutil.Eventually(t, 5*time.Second, "the queue's length over time", func() bool {
		depths, err := carrying.(link.Gauging).Depths()
		must(t, err)
		return len(depths) == 1 && slices.Max(append([]uint32{0}, depths[0][0]...)) > 1514 && slices.Max(append([]uint32{0}, depths[0][1]...)) == 0
	})
}

// needDiscipline skips the test if the discipline is the kernel's and the kernel lacks it.
func (b *bench) needDiscipline(t *testing.T, d link.Discipline) {
	t.Helper()
	if b.carrier.Mechanism() == "netem" {
		testutil.Need(t, string(d), probe.Qdisc(string(d)))
	}
}

// transfer sends bytes from one host to the other.
func transfer(t *testing.T, b *bench, octets int) {
	t.Helper()
	var listener net.Listener
	must(t, b.right.Do(func() (err error) {
		listener, err = net.Listen("tcp4", "198.51.100.2:0")
		return err
	}))
	defer func() { _ = listener.Close() }()
	received := make(chan int64, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			received <- 0
			return
		}
		n, _ := io.Copy(io.Discard, conn)
		_ = conn.Close()
		received <- n
	}()
	var conn net.Conn
	must(t, b.left.Do(func() (err error) {
		conn, err = net.DialTimeout("tcp4", listener.Addr().String(), 10*time.Second)
		return err
	}))
	_, err := conn.Write(make([]byte, octets))
	must(t, err)
	must(t, conn.Close())
	if n := <-received; n != int64(octets) {
		t.Fatalf("%d bytes arrived of %d", n, octets)
	}
}

// qdiscs lists the kinds of qdiscs at one of the cable's ends, except the kernel's default.
func qdiscs(t *testing.T, b *bench, dev string) (kinds []string) {
	t.Helper()
	conn, err := tc.Open(b.ns)
	must(t, err)
	defer conn.Close()
	all, err := conn.List(dev)
	must(t, err)
	for _, q := range all {
		if q.Kind != "noqueue" {
			kinds = append(kinds, q.Kind)
		}
	}
	return kinds
}
