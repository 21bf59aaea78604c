// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/units"
	"weir/kernel/netns"
	"weir/kernel/probe"
	"weir/kernel/rtnl"
	"weir/kernel/sysctl"
	"weir/kernel/testutil"
	"weir/lab/link"
	"weir/lab/link/carry"
	"weir/lab/link/emulator"
	"weir/lab/link/rawsock"
)

// cable is an emulated link between two hosts, 198.18.0.1 and 198.18.0.2.
type cable struct {
	carrier  *netns.Namespace
	hosts    [2]*netns.Namespace
	carrying link.Carrying // nil before carry
}

func newCable(b *testing.B, forward, reverse link.Direction) *cable {
	b.Helper()
	c := newHosts(b)
	c.carry(b, forward, reverse)
	return c
}

// newHosts makes the hosts of a cable and its ends, not yet joined.
func newHosts(b *testing.B) *cable {
	b.Helper()
	testutil.NeedRoot(b)
	testutil.Need(b, "AF_XDP", probe.AFXDP())
	c := &cable{carrier: testutil.Namespace(b, "carrier")}
	conn, err := rtnl.Open(c.carrier)
	must(b, err)
	b.Cleanup(conn.Close)
	for i, end := range []string{"a", "b"} {
		c.hosts[i] = testutil.Namespace(b, end)
		must(b, conn.AddVeth(end, c.hosts[i], "host", 0))
		must(b, conn.SetUp(end))
		host, err := rtnl.Open(c.hosts[i])
		must(b, err)
		must(b, host.SetUp("host"))
		must(b, host.AddAddress("host", netip.PrefixFrom(address(i), 24)))
		host.Close()
		must(b, link.Prepare(c.hosts[i], "host"))
		must(b, link.Thread(c.hosts[i], "host"))
		// The windows of a fast, long path: 100 ms at 1 Gbit/s are 12.5 MB.
		must(b, sysctl.Set(c.hosts[i], "net.ipv4.tcp_rmem", "4096 131072 67108864"))
		must(b, sysctl.Set(c.hosts[i], "net.ipv4.tcp_wmem", "4096 131072 67108864"))
	}
	return c
}

// carry starts a carrier on the cable instead of the previous one: the emulator, or the one named
// by WEIR_LINK_CARRIER.
func (c *cable) carry(b *testing.B, forward, reverse link.Direction) {
	b.Helper()
	if c.carrying != nil {
		must(b, c.carrying.Close())
	}
	choice, err := carry.Choose(cmp.Or(os.Getenv("WEIR_LINK_CARRIER"), carry.Emulator))
	must(b, err)
	carrying, err := choice.Carrier.Carry(context.Background(), c.carrier, []link.Cable{
		{Name: "cable", A: "a", B: "b", Forward: forward, Reverse: reverse},
	})
	must(b, err)
	c.carrying = carrying
	b.Cleanup(func() { must(b, carrying.Close()) })
}

func address(host int) netip.Addr { return netip.AddrFrom4([4]byte{198, 18, 0, byte(host + 1)}) }

func must(b testing.TB, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (c *cable) forward(b *testing.B) link.Counters {
	b.Helper()
	status, err := c.carrying.Status()
	must(b, err)
	return status[0].Forward
}

// BenchmarkEmulatorUncapped sends TCP through a link without a rate: the throughput of one emulator
// thread.
func BenchmarkEmulatorUncapped(b *testing.B) {
	c := newCable(b, link.Direction{}, link.Direction{})
	for range b.N {
		before, cpu := c.forward(b), c.carrying.CPU()
		goodput := c.tcp(b, 4*time.Second, time.Second, "")
		after := c.forward(b)
		frames := float64(after.Sent - before.Sent)
		b.ReportMetric(goodput/1e9, "Gbit/s")
		b.ReportMetric(float64((c.carrying.CPU()-cpu).Nanoseconds())/frames, "cpu-ns/frame")
		b.ReportMetric(float64(after.Overruns-before.Overruns), "overruns")
	}
}

// BenchmarkEmulatorTCP reports goodput at 1, 2 and 5 Gbit/s with a queue of one bandwidth-delay
// product; the maximum is 94.15 % of the rate.
func BenchmarkEmulatorTCP(b *testing.B) {
	for _, rate := range []units.BitRate{1e9, 2e9, 5e9} {
		for _, rtt := range []time.Duration{20 * time.Millisecond, 100 * time.Millisecond} {
			b.Run(fmt.Sprintf("rate=%s/rtt=%s", strings.ReplaceAll(rate.String(), " ", ""), rtt), func(b *testing.B) { emulatorTCP(b, rate, rtt) })
		}
	}
}

func emulatorTCP(b *testing.B, rate units.BitRate, rtt time.Duration) {
	queue := link.Queue{Bytes: units.ByteSize(float64(rate) / 8 * rtt.Seconds())}
	d := link.Direction{Rate: rate, Delay: rtt / 2, Queue: queue}
	c := newCable(b, d, d)
	for range b.N {
		before, cpu := c.forward(b), c.carrying.CPU()
		goodput := c.tcp(b, 10*time.Second, 4*time.Second, "cubic")
		n := c.forward(b)
		b.ReportMetric(goodput/1e6, "Mbit/s")
		b.ReportMetric(float64((c.carrying.CPU()-cpu).Nanoseconds())/float64(n.Sent-before.Sent), "cpu-ns/frame")
		b.ReportMetric(float64(n.Overruns), "overruns")
		b.ReportMetric(float64(n.QueueDrops), "queue-drops")
		b.ReportMetric(float64(n.Lateness.Quantile(0.5))/1e3, "late-p50-us")
		b.ReportMetric(float64(n.Lateness.Quantile(0.99))/1e3, "late-p99-us")
	}
}

// BenchmarkEmulatorOpen opens a hundred slow links and reports the emulator's CPU time until they
// carry frames.
func BenchmarkEmulatorOpen(b *testing.B) {
	testutil.NeedRoot(b)
	testutil.Need(b, "AF_XDP", probe.AFXDP())
	carrier, hosts := testutil.Namespace(b, "carrier"), testutil.Namespace(b, "hosts")
	conn, err := rtnl.Open(carrier)
	must(b, err)
	defer conn.Close()
	d := link.Direction{Rate: 10e6, Delay: 5 * time.Millisecond, Queue: link.Queue{Bytes: 12500}}
	var cables []link.Cable
	for i := range 100 {
		c := link.Cable{Name: fmt.Sprint(i), A: fmt.Sprint("a", i), B: fmt.Sprint("b", i), Forward: d, Reverse: d}
		for _, end := range []string{c.A, c.B} {
			must(b, conn.AddVeth(end, hosts, end, 0))
			must(b, conn.SetUp(end))
		}
		cables = append(cables, c)
	}
	var cpu time.Duration
	for b.Loop() {
		carrying, err := emulator.New(emulator.Options{}).Carry(context.Background(), carrier, cables)
		must(b, err)
		_, err = carrying.Status()
		must(b, err)
		cpu += carrying.CPU()
		must(b, carrying.Close())
	}
	b.ReportMetric(float64(cpu.Milliseconds())/float64(b.N), "cpu-ms/op")
}

// BenchmarkEmulatorSendTime sends frames of 1500 octets at 500 Mbit/s, evenly, through a delay of
// 10 ms and reports their lateness.
func BenchmarkEmulatorSendTime(b *testing.B) {
	d := link.Direction{Rate: 1e9, Delay: 10 * time.Millisecond, Queue: link.Queue{Packets: 1000}}
	c := newCable(b, d, link.Direction{})
	sender, err := rawsock.Open(c.hosts[0], "host", rawsock.None)
	must(b, err)
	defer func() { _ = sender.Close() }()
	for range b.N {
		paced(b, sender, 500e6, 5*time.Second)
		n := c.forward(b)
		b.ReportMetric(float64(n.Lateness.Quantile(0.5))/1e3, "late-p50-us")
		b.ReportMetric(float64(n.Lateness.Quantile(0.99))/1e3, "late-p99-us")
		b.ReportMetric(float64(n.Overruns), "overruns")
	}
}

// paced sends frames of 1514 octets at a rate on the wire for a time. It sends the frames missed
// during a sleep at once: the link's own rate of twice as much spreads such bursts.
func paced(b *testing.B, s *rawsock.Socket, rate float64, length time.Duration) {
	b.Helper()
	frame := make([]byte, 1514)
	copy(frame, []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5})
	gap := time.Duration(float64(len(frame)+link.FrameOverhead) * 8e9 / rate)
	begin := rawsock.Now()
	for i := time.Duration(0); i*gap < length; i++ {
		if early := i*gap - (rawsock.Now() - begin); early > 0 {
			rawsock.Pause(early)
		}
		must(b, s.Send(context.Background(), frame))
	}
}

// tcp sends from the first host to the second for a time and returns the payload's rate in bit/s,
// after settle.
func (c *cable) tcp(b *testing.B, length, settle time.Duration, congestion string) float64 {
	b.Helper()
	var listener net.Listener
	must(b, c.hosts[1].Do(func() (err error) {
		listener, err = net.Listen("tcp4", netip.AddrPortFrom(address(1), 0).String())
		return err
	}))
	defer func() { _ = listener.Close() }()
	var conn net.Conn
	must(b, c.hosts[0].Do(func() (err error) {
		conn, err = net.DialTimeout("tcp4", listener.Addr().String(), 10*time.Second)
		return err
	}))
	if congestion != "" {
		setCongestion(b, conn.(*net.TCPConn), congestion)
	}
	receiver, err := listener.Accept()
	must(b, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for block := make([]byte, 1<<18); ; {
			if _, err := conn.Write(block); err != nil {
				return
			}
		}
	}()
	goodput := measure(b, receiver, length, settle)
	_ = receiver.Close()
	_ = conn.Close()
	<-done
	return goodput
}

func setCongestion(b *testing.B, conn *net.TCPConn, name string) {
	b.Helper()
	raw, err := conn.SyscallConn()
	must(b, err)
	var set error
	must(b, raw.Control(func(fd uintptr) { set = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, name) }))
	must(b, set)
}

func measure(b *testing.B, from net.Conn, length, settle time.Duration) float64 {
	b.Helper()
	must(b, from.SetReadDeadline(time.Now().Add(length+10*time.Second)))
	buffer := make([]byte, 1<<20)
	begin := time.Now()
	counted, octets := begin, 0
	for {
		n, err := from.Read(buffer)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrDeadlineExceeded) {
			b.Fatal(err)
		}
		now := time.Now()
		if now.Sub(begin) < settle {
			counted = now
			continue
		}
		if octets += n; err != nil || now.Sub(begin) >= length {
			return float64(octets) * 8 / now.Sub(counted).Seconds()
		}
	}
}
