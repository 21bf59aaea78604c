// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"time"

	"weir/internal/units"
	"weir/kernel/netns"
	"weir/kernel/protocols"
	"weir/kernel/rtnl"
	"weir/kernel/sysctl"
	"weir/lab/link"
	"weir/lab/traffic"
)

// reading is the total received by a host's devices, without lo, since the count began.
type reading struct {
	at             time.Duration
	frames, octets uint64
}

// counter counts the bytes that a host's devices receive.
type counter struct {
	ns     *netns.Namespace
	conn   *rtnl.Conn
	begin  time.Time
	first  reading
	before protocols.Counters
	all    []reading // the first is zero
}

func newCounter(ns *netns.Namespace) (*counter, error) {
	conn, err := rtnl.Open(ns)
	if err != nil {
		return nil, err
	}
	c := &counter{ns: ns, conn: conn}
	if c.before, err = protocols.Read(ns); err == nil {
		c.begin = time.Now()
		c.first, err = c.now()
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	c.all = []reading{{}}
	return c, nil
}

func (c *counter) close() { c.conn.Close() }

func (c *counter) now() (r reading, err error) {
	devices, err := link.Traffic(c.conn, c.ns)
	r.at = time.Since(c.begin)
	for name, device := range devices {
		if name != "lo" {
			r.frames, r.octets = r.frames+device.ReceivedPackets, r.octets+device.ReceivedOctets
		}
	}
	return r, err
}

func (c *counter) read() error {
	now, err := c.now()
	if err != nil {
		return err
	}
	c.all = append(c.all, reading{now.at, now.frames - c.first.frames, now.octets - c.first.octets})
	return nil
}

// quiet reports whether nothing arrived between the last three readings.
func (c *counter) quiet() bool {
	n := len(c.all)
	return n >= 3 && c.all[n-1].frames == c.all[n-3].frames
}

// at is the total at a time, interpolated between readings.
func (c *counter) at(t time.Duration) (frames, octets float64) {
	before := c.all[0]
	for _, r := range c.all[1:] {
		if r.at >= t {
			part := float64(t-before.at) / float64(r.at-before.at)
			return float64(before.frames) + part*float64(r.frames-before.frames), float64(before.octets) + part*float64(r.octets-before.octets)
		}
		before = r
	}
	return float64(before.frames), float64(before.octets)
}

const (
	etherHeader = 14
	udpHeader   = 8
	tcpHeader   = 20
	timestamps  = 12 // of TCP, with padding
)

// headers is the mean number of header bytes in a frame: Ethernet's, IP's, and the transport's by
// the host's protocol counters. If both TCP and UDP arrived, the datagrams are those delivered to
// sockets.
func (c *counter) headers(f traffic.Flow, frames uint64) (float64, error) {
	after, err := protocols.Read(c.ns)
	if err != nil || frames == 0 {
		return 0, err
	}
	stamps, err := sysctl.Get(c.ns, "net.ipv4.tcp_timestamps")
	if err != nil {
		return 0, err
	}
	tcp := float64(tcpHeader)
	if stamps != "0" {
		tcp += timestamps
	}
	since := after.Minus(c.before)
	datagrams := min(frames, since.Sum("Udp.InDatagrams", "Udp6.InDatagrams", "Udp.InErrors", "Udp6.InErrors"))
	if since["Tcp.InSegs"] == 0 { // a socket may receive several datagrams as one (GRO)
		datagrams = frames
	}
	part := float64(datagrams) / float64(frames)
	ip := float64(f.Headers() - tcpHeader - timestamps)
	return etherHeader + ip + part*udpHeader + (1-part)*tcp, nil
}

// fill stores the counts; took is the command's duration if it ended by itself.
func (c *counter) fill(result *traffic.Result, f traffic.Flow, took time.Duration) error {
	last := c.all[len(c.all)-1]
	header, err := c.headers(f, last.frames)
	if err != nil {
		return fmt.Errorf("count received bytes: %w", err)
	}
	payload := func(t time.Duration) uint64 {
		frames, octets := c.at(t)
		return uint64(max(0, octets-header*frames) + 0.5)
	}
	over := f.Duration
	stream := traffic.Stream{ReceivedBytes: payload(over), Finished: took}
	var before uint64
	for t := traffic.RateInterval; t <= over; t += traffic.RateInterval {
		now := payload(t)
		stream.Received = append(stream.Received, now-min(now, before))
		before = now
	}
	if took > 0 {
		over = took
	}
	stream.Goodput = units.BitRate(float64(stream.ReceivedBytes) * 8 / over.Seconds())
	result.Streams, result.Goodput = []traffic.Stream{stream}, stream.Goodput
	return nil
}
