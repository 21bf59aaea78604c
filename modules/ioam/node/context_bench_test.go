// SPDX-License-Identifier: Apache-2.0

package node

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weir/modules/ioam/codec"
)

const tcpSize = 20

// segment returns an Ethernet frame with IPv6, optional extension headers, and a segment of an open
// connection.
func segment(headers []byte, payload string) []byte {
	p := packet(0, headers, tcpSize-8+len(payload))
	if len(headers) == 0 {
		p[ethernet+6] = unix.IPPROTO_TCP
	}
	tcp := p[len(p)-tcpSize-len(payload):]
	tcp[12], tcp[13] = tcpSize/4<<4, 0x18 // PSH, ACK
	copy(tcp[tcpSize:], payload)
	return p
}

// BenchmarkContext measures the cost of the search for trace contexts per packet at the end of
// options, with BPF_PROG_TEST_RUN.
func BenchmarkContext(b *testing.B) {
	exit := full
	exit.Remove = true
	off := aNode(exit)
	on := aNode(exit)
	on.Node.TraceContext = true
	const head = "GET / HTTP/1.1\r\nHost: beta\r\n"
	field, body := "traceparent: "+valid+"\r\n\r\n", strings.Repeat("a", 1000)
	long := head + "Cookie: " + strings.Repeat("a", 900) + "\r\n" + field
	none := head + strings.Repeat("X-Field: 12345\r\n", 60) + "\r\n"
	options := codec.AppendHeader(nil, unix.IPPROTO_TCP, codec.NewTrace(123, codec.HopLimitNode|codec.Interfaces|codec.Seconds|codec.Fraction, 3, 0))
	stats, err := ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = stats.Close() }()
	bench := newBench(b, off)
	for _, test := range []struct {
		name   string
		want   Config
		in     []byte
		repeat uint32
	}{
		{"UDP, off, which is what the measurement takes", off, packet(0, nil, 1000), 100},
		{"UDP", on, packet(0, nil, 1000), 100},
		{"TCP, off", off, segment(nil, body), 100},
		{"TCP, no request", on, segment(nil, body), 100},
		{"TCP, a request of 100 octets", on, segment(nil, head+field), 100},
		{"TCP, a request of 1,000 octets", on, segment(nil, long), 100},
		{"TCP, a request of 60 lines without a context", on, segment(nil, none), 100},
		{"exit, off", off, segment(options, body), 1},
		{"exit, no request", on, segment(options, body), 1},
		{"exit, a request of 1,000 octets", on, segment(options, long), 1},
	} {
		b.Run(test.name, func(b *testing.B) {
			bench.again(test.want)
			b.ReportMetric(bench.cost(bench.objects.IoamIngress, test.in, test.repeat), "ns/packet")
			b.ReportMetric(0, "ns/op")
		})
	}
}
