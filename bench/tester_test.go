// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"encoding/json"
	"math"
	"net"
	"net/netip"
	"os/exec"
	"runtime"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"weir/kernel/netns"
	"weir/kernel/rtnl"
	"weir/kernel/sysctl"
	"weir/kernel/testutil"
	"weir/tester"
	"weir/tester/analyzer"
	"weir/tester/generator"
	"weir/tester/packet"
)

const (
	testerTrial = 300 * time.Millisecond
	testerTurns = 4 // the best one counts: other work on the machine only slows down
	testerPort  = 50000
)

// testerPair is a veth pair with an analyzer at the far end. All work is done on one CPU, the last
// one.
type testerPair struct {
	near, far *netns.Namespace
	cpu       int
}

func newTesterPair(b *testing.B) *testerPair {
	b.Helper()
	testutil.NeedRoot(b)
	testutil.Need(b, "live-frames", generator.LiveFrames())
	p := &testerPair{near: testutil.Namespace(b, "near"), far: testutil.Namespace(b, "far"), cpu: runtime.NumCPU() - 1}
	for _, ns := range []*netns.Namespace{p.near, p.far} {
		// the kernel's own IPv6 frames would start the receiver on another CPU for the rest of the
		// test
		must(b, sysctl.Set(ns, "net.ipv6.conf.all.disable_ipv6", "1"))
		must(b, sysctl.Set(ns, "net.ipv6.conf.default.disable_ipv6", "1"))
	}
	near, err := rtnl.Open(p.near)
	must(b, err)
	defer near.Close()
	far, err := rtnl.Open(p.far)
	must(b, err)
	defer far.Close()
	must(b, near.AddVeth("out", p.far, "in", 0))
	must(b, far.SetUp("in"))
	must(b, near.SetUp("out"))
	must(b, near.AddAddress("out", netip.MustParsePrefix("198.18.0.1/24")))
	must(b, far.AddAddress("in", netip.MustParsePrefix("198.18.0.2/24")))
	return p
}

func (p *testerPair) analyze(b *testing.B, ids []uint16) *analyzer.Analyzer {
	b.Helper()
	a, err := analyzer.Attach(p.far, "in", analyzer.Options{Streams: ids})
	must(b, err)
	return a
}

// run sends n streams of 64-octet frames and returns the frames per second that were analyzed, and
// those that were refused.
func (p *testerPair) run(b *testing.B, n int, gap time.Duration, policy tester.Policy) (rate float64, g tester.Generation, analysis tester.Analysis) {
	b.Helper()
	schedule := tester.Schedule{Duration: testerTrial, Policy: policy}
	var ids []uint16
	for id := range uint16(n) {
		ids = append(ids, id)
		schedule.Streams = append(schedule.Streams, tester.Stream{
			ID: id, Stamped: true, Sizes: []tester.SizeShare{{Size: 64, Weight: 1}}, Gap: gap,
			Header: tester.Header{
				SourceMAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, DestinationMAC: net.HardwareAddr{2, 0, 0, 0, 0, 2},
				Source: netip.MustParseAddr("198.18.0.1"), Destination: netip.MustParseAddr("198.18.0.2"),
				SourcePort: 49152 + id, DestinationPort: testerPort, DSCP: uint8(id%3) * 20,
			},
		})
	}
	a := p.analyze(b, ids)
	defer func() { must(b, a.Close()) }()
	running, err := generator.StartWith(b.Context(), generator.Port{Namespace: p.near, Device: "out", CPUs: []int{p.cpu}}, schedule, generator.Live)
	must(b, err)
	g, err = running.Wait()
	must(b, err)
	sent, span := uint64(0), time.Duration(0)
	for _, s := range g.Sent {
		sent += s.Frames
		span = max(span, s.Last-g.Sent[0].First)
	}
	received := uint64(0)
	testutil.Eventually(b, 5*time.Second, "an account of every frame", func() bool {
		analysis, err = a.Snapshot()
		must(b, err)
		received = 0
		for _, c := range analysis.Streams {
			received += c.Unique
		}
		return received+g.Refused == sent
	})
	return float64(received) / span.Seconds(), g, analysis
}

// BenchmarkTesterOneCore counts 64-octet frames that are generated, stamped with a checksum,
// received and fully analyzed on one CPU, with one stream and with a thousand. In the same run, on
// the same pair and CPU: UDP datagrams of the same size by sendmmsg to a socket without a reader,
// and by iperf3 -u. veth copies no payload: these are no bit rates.
func BenchmarkTesterOneCore(b *testing.B) {
	p := newTesterPair(b)
	var one, thousand, paced, mmsg, iperf float64
	var refused uint64
	lowest, highest := math.Inf(1), 0.0 // of the turns' ratios
	for range b.N {
		var best [4]float64
		for range testerTurns {
			var turn [3]float64
			for i, trial := range []struct {
				streams int
				gap     time.Duration
			}{
				{1, 0}, {1000, 0}, {1000, 1000 * 100 * time.Nanosecond}, // 10 million frame/s: more than possible
			} {
				rate, g, _ := p.run(b, trial.streams, trial.gap, tester.CatchUp)
				best[i], turn[i] = max(best[i], rate), rate
				refused += g.Refused
			}
			lowest, highest = min(lowest, turn[1]/turn[0]), max(highest, turn[1]/turn[0])
			best[3] = max(best[3], p.sendmmsg(b))
		}
		one, thousand, paced, mmsg = one+best[0], thousand+best[1], paced+best[2], mmsg+best[3]
		iperf += p.iperf(b)
	}
	n := float64(b.N)
	b.ReportMetric(one/n/1e6, "Mframe/s")
	b.ReportMetric(thousand/one, "1000-streams-ratio")
	b.ReportMetric(lowest, "1000-streams-ratio-lowest-turn")
	b.ReportMetric(highest, "1000-streams-ratio-highest-turn")
	b.ReportMetric(paced/one, "1000-paced-streams-ratio")
	b.ReportMetric(float64(refused)/n, "refused-frames")
	b.ReportMetric(one/mmsg, "x-sendmmsg")
	if iperf > 0 {
		b.ReportMetric(one/iperf, "x-iperf3")
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkTesterGap sends a frame every 10 µs and skips late ones. The error is the time between
// due and creation of a frame, as the generator's program reads the clock; the variation is that of
// the one-way delays at the receiver.
func BenchmarkTesterGap(b *testing.B) {
	p := newTesterPair(b)
	var p50, p99, variation, skipped float64
	for range b.N {
		_, g, analysis := p.run(b, 1, 10*time.Microsecond, tester.Skip)
		p50 += float64(g.Lateness.Quantile(0.5))
		p99 += float64(g.Lateness.Quantile(0.99))
		skipped += float64(g.Sent[0].Skipped) / float64(g.Sent[0].Frames+g.Sent[0].Skipped)
		variation += float64(analysis.Streams[0].Variation.Quantile(0.5))
	}
	n := float64(b.N)
	b.ReportMetric(p50/n, "ns-gap-error-p50")
	b.ReportMetric(p99/n, "ns-gap-error-p99")
	b.ReportMetric(skipped/n*100, "%-skipped")
	b.ReportMetric(variation/n, "ns-variation-p50")
	b.ReportMetric(0, "ns/op")
}

// message is struct mmsghdr.
type message struct {
	header unix.Msghdr
	_      uint32 // msg_len
	_      uint32
}

// sendmmsg returns the datagrams per second that reach the far end.
func (p *testerPair) sendmmsg(b *testing.B) (rate float64) {
	b.Helper()
	a := p.analyze(b, nil)
	defer func() { must(b, a.Close()) }()
	sink := p.socket(b, p.far)
	defer func() { must(b, unix.Close(sink)) }()
	must(b, unix.Bind(sink, &unix.SockaddrInet4{Port: testerPort}))
	from := p.socket(b, p.near)
	defer func() { must(b, unix.Close(from)) }()
	must(b, unix.SetsockoptInt(from, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 1<<23))
	must(b, unix.Connect(from, &unix.SockaddrInet4{Port: testerPort, Addr: [4]byte{198, 18, 0, 2}}))
	const batch = 64
	payload := make([]byte, tester.StampSize)
	vector := unix.Iovec{Base: &payload[0], Len: uint64(len(payload))}
	messages := make([]message, batch)
	for i := range messages {
		messages[i].header = unix.Msghdr{Iov: &vector, Iovlen: 1}
	}
	done := make(chan time.Duration)
	go func() {
		runtime.LockOSThread() // permanently: the thread ends with its CPU setting
		if packet.Pin([]int{p.cpu}) != nil {
			done <- 0
			return
		}
		began := time.Now()
		for time.Since(began) < testerTrial {
			_, _, _ = unix.Syscall6(unix.SYS_SENDMMSG, uintptr(from), uintptr(unsafe.Pointer(&messages[0])), batch, 0, 0, 0)
		}
		done <- time.Since(began)
	}()
	span := <-done
	if span == 0 {
		b.Fatal("the sender could not be kept on one CPU")
	}
	analysis, err := a.Snapshot()
	must(b, err)
	return float64(analysis.Foreign) / span.Seconds()
}

func (p *testerPair) socket(b *testing.B, ns *netns.Namespace) (fd int) {
	b.Helper()
	must(b, ns.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		return err
	}))
	return fd
}

// iperf returns the datagrams per second that iperf3 sends with both its ends on the CPU, arrived
// or not; 0 without iperf3.
func (p *testerPair) iperf(b *testing.B) float64 {
	b.Helper()
	path, err := exec.LookPath("iperf3")
	if err != nil {
		b.Log("no comparison with iperf3: it is not installed")
		return 0
	}
	cpu := strconv.Itoa(p.cpu)
	server := exec.Command("taskset", "-c", cpu, path, "-s")
	must(b, p.far.Do(server.Start))
	defer func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	}()
	arguments := []string{"-c", cpu, path, "-c", "198.18.0.2", "-u", "-b", "0", "-l", strconv.Itoa(tester.StampSize), "-t", "1", "-J"}
	var result struct {
		End struct {
			Sent struct {
				Packets uint64  `json:"packets"`
				Seconds float64 `json:"seconds"`
			} `json:"sum_sent"`
		} `json:"end"`
	}
	testutil.Eventually(b, 20*time.Second, "an answer of iperf3", func() bool {
		var output []byte
		err := p.near.Do(func() (err error) {
			output, err = exec.Command("taskset", arguments...).Output()
			return err
		})
		return err == nil && json.Unmarshal(output, &result) == nil && result.End.Sent.Packets > 0
	})
	return float64(result.End.Sent.Packets) / result.End.Sent.Seconds
}
