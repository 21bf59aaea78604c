// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/ix/session"
	"weir/ix/wire"
	"weir/kernel/testutil"
)

// Sizes of BenchmarkMembers; docs/results/ix.md has those of the measurement.
var (
	scaleMembers  = flag.Int("members", 32, "member sessions of BenchmarkMembers, in 16 groups")
	scalePrefixes = flag.Int("prefixes", 2000, "prefixes of BenchmarkMembers, each with 6 paths")
	scaleRate     = flag.Int("updates", 200, "changes per second of BenchmarkMembers")
	scaleTime     = flag.Duration("changes", time.Second, "time of changes of BenchmarkMembers")
)

const scalePaths = 6

// scaleFile has members in 16 groups: 8 numbers of paths, with and without one sponsor.
func scaleFile(network byte, members int) string {
	var text strings.Builder
	fmt.Fprintf(&text, "version: 1\nexchange: {as: 65500, router_id: 10.99.0.2}\nfeed: {bird: 127.%d.0.1, local: 127.%d.0.2}\nlisten: [127.%d.0.2]\nsponsors:\n", network, network, network)
	for i := range scalePaths {
		fmt.Fprintf(&text, "  s%d: {as: %d, ports: {p: {addresses: [10.99.1.%d], rate: 10Gbit}}}\n", i, 1000+i, i+1)
	}
	text.WriteString("members:\n")
	for i := range members {
		without := ""
		if i%16 >= 8 {
			without = ", without: [s0]"
		}
		fmt.Fprintf(&text, "  m%d: {as: %d, addresses: [127.%d.%d.%d], paths: %d%s}\n", i, 64512, network, 2+i/250, 1+i%250, 1+i%8, without)
	}
	return text.String()
}

// sink is a member that counts bytes and notes the arrival of marked changes.
type sink struct {
	conn  net.Conn
	ended chan struct{} // End-of-RIB
	bytes int64
}

// changes holds the times of sending by number, and the delays of arrivals.
type changes struct {
	sent    []atomic.Int64
	mu      sync.Mutex
	delays  []time.Duration
	arrived atomic.Int64
}

var medHead = []byte{0x80, byte(wire.AttrMED), 4}

// read reads messages until the connection ends. A change has its number in the MED.
func (s *sink) read(c *changes) {
	reader := bufio.NewReaderSize(s.conn, 32<<10)
	var body [wire.MaxExtendedMessage]byte
	var delays []time.Duration
	defer func() { c.mu.Lock(); c.delays = append(c.delays, delays...); c.mu.Unlock() }()
	for {
		if _, err := io.ReadFull(reader, body[:wire.HeaderSize]); err != nil {
			return
		}
		size := int(binary.BigEndian.Uint16(body[16:])) - wire.HeaderSize
		kind := body[18]
		if _, err := io.ReadFull(reader, body[:size]); err != nil {
			return
		}
		s.bytes += int64(size + wire.HeaderSize)
		if kind != wire.TypeUpdate {
			continue
		}
		if size == 4 {
			close(s.ended)
			continue
		}
		if at := bytes.Index(body[:size], medHead); at > 0 {
			if number := binary.BigEndian.Uint32(body[at+3:]); int(number) < len(c.sent) {
				delays = append(delays, time.Duration(time.Now().UnixNano()-c.sent[number].Load()))
				c.arrived.Add(1)
			}
		}
	}
}

// BenchmarkMembers serves members from a cold start, then changes paths at a rate. It reports the
// time until all members have the table, and the delay of a change from the feed to each member.
func BenchmarkMembers(b *testing.B) {
	testutil.NeedRoot(b)
	for range b.N {
		network := byte(testutil.Rand(b).IntN(200) + 20)
		folder := b.TempDir()
		testutil.Write(b, filepath.Join(folder, "ix.yaml"), scaleFile(network, *scaleMembers))
		port := 17900 + testutil.Rand(b).IntN(10000)
		weir := exec.Command(os.Args[0])
		weir.Env = append(os.Environ(), serveVariable+"="+folder, fmt.Sprintf("%s=%d", portVariable, port))
		log, err := os.Create(filepath.Join(folder, "log"))
		if err != nil {
			b.Fatal(err)
		}
		weir.Stdout, weir.Stderr = log, log
		if err := weir.Start(); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			_ = weir.Process.Kill()
			_ = weir.Wait()
			if b.Failed() {
				text, _ := os.ReadFile(log.Name())
				b.Logf("%s", text[:min(len(text), 4000)])
			}
		})
		runScale(b, weir.Process.Pid, network, port)
		_ = weir.Process.Kill()
		_ = weir.Wait()
	}
}

func connect(b *testing.B, network byte, x, y, port int) (conn net.Conn) {
	b.Helper()
	from := net.IPv4(127, network, byte(x), byte(y))
	testutil.Eventually(b, patience, "a connection", func() bool {
		var err error
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: from}}
		conn, err = d.Dial("tcp", fmt.Sprintf("127.%d.0.2:%d", network, port))
		return err == nil
	})
	return conn
}

func runScale(b *testing.B, pid int, network byte, port int) {
	b.Helper()
	feed, err := session.Open(connect(b, network, 0, 1, port), session.Config{Open: birdOpen(), PeerAS: 65500})
	if err != nil {
		b.Fatal(err)
	}
	c := &changes{sent: make([]atomic.Int64, int(scaleTime.Seconds()*float64(*scaleRate)))}
	start := time.Now()
	var sinks []*sink
	for i := range *scaleMembers {
		open := routerOpen(64512, fmt.Sprintf("10.0.%d.%d", i/250, 1+i%250))
		open.HoldTime, open.Families = 0, families[:1]
		conn := connect(b, network, 2+i/250, 1+i%250, port)
		if _, err := conn.Write(wire.AppendKeepalive(wire.AppendOpen(nil, &open))); err != nil {
			b.Fatal(err)
		}
		s := &sink{conn: conn, ended: make(chan struct{})}
		sinks = append(sinks, s)
		go s.read(c)
	}
	out := wire.Outbound{Coding: wire.Coding{AS4: true, AddPathIPv4: true, AddPathIPv6: true}, Max: wire.MaxMessage}
	target := func(n, path int) []wire.Target {
		return []wire.Target{{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(20 + n>>16), byte(n >> 8), byte(n), 0}), 24), ID: uint32(path + 1)}}
	}
	attrs := func(n, path int, med uint32) wire.Attrs {
		a := attributes(netip.AddrFrom4([4]byte{10, 99, 1, byte(path + 1)}), uint32(1000+path), uint32(2000+(n/6)%97), uint32(3000+n/6))
		if med > 0 {
			a = binary.BigEndian.AppendUint32(append(a, medHead...), med)
		}
		return a
	}
	for path := range scalePaths {
		var messages []byte
		for n := range *scalePrefixes {
			messages = out.Announce(messages, families[0], attrs(n, path, 0), target(n, path))
		}
		if err := feed.Write(messages); err != nil {
			b.Fatal(err)
		}
	}
	if err := feed.Write(wire.AppendEndOfRIB(wire.AppendEndOfRIB(nil, families[0]), families[1])); err != nil {
		b.Fatal(err)
	}
	for _, s := range sinks {
		<-s.ended
	}
	b.ReportMetric(time.Since(start).Seconds(), "s-until-served")
	b.ReportMetric(rss(b, pid), "MiB-served")
	// Each change gives one prefix's paths a MED, so each member receives its set anew.
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	began := time.Now()
	for n := 1; n < len(c.sent); {
		<-tick.C
		for due := int(time.Since(began).Seconds() * float64(*scaleRate)); n < min(due, len(c.sent)); n++ {
			var messages []byte
			c.sent[n].Store(time.Now().UnixNano())
			for path := range scalePaths {
				messages = out.Announce(messages, families[0], attrs(n%*scalePrefixes, path, uint32(n)), target(n%*scalePrefixes, path))
			}
			if err := feed.Write(messages); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(rss(b, pid), "MiB-changes")
	last, since := int64(-1), time.Now()
	testutil.Eventually(b, patience, "the last changes", func() bool {
		if now := c.arrived.Load(); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > 200*time.Millisecond
	})
	for _, s := range sinks {
		_ = s.conn.Close()
	}
	testutil.Eventually(b, patience, "the delays", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return int64(len(c.delays)) == c.arrived.Load() })
	slices.Sort(c.delays)
	if len(c.delays) == 0 {
		b.Fatal("no change has arrived")
	}
	b.ReportMetric(float64(len(c.delays)), "arrivals")
	b.ReportMetric(float64(c.delays[len(c.delays)/2].Milliseconds()), "ms-p50")
	b.ReportMetric(float64(c.delays[len(c.delays)*99/100].Milliseconds()), "ms-p99")
	b.ReportMetric(float64(c.delays[len(c.delays)-1].Milliseconds()), "ms-max")
}

// rss is the resident memory of a process in MiB.
func rss(b *testing.B, pid int) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	var kB float64
	if _, after, ok := strings.Cut(string(text), "VmRSS:"); ok {
		_, _ = fmt.Sscan(after, &kB)
	}
	return kB / 1024
}
