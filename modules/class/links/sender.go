// SPDX-License-Identifier: Apache-2.0

package links

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/wait"
	"weir/kernel/packetsock"
)

// Packets of a test go from one address of the range for benchmarks (RFC 2544) to another, and to
// the device's own link-layer address: a switch passes no frame back to where its address is, and
// a neighbour's NIC does not take it.
var testSource, testSink = [4]byte{198, 18, 0, 1}, [4]byte{198, 18, 0, 2}

const (
	testPort  = 9  // discard
	headers   = 28 // of IPv4 and UDP
	testTTL   = 1  // no router passes it on
	sinceBody = headers + 8 + 2 + 4 + 8
	tick      = 500 * time.Microsecond
	// behind limits how much a late sender catches up; farBehind is the limit of lbe, with bursts
	// that affect only its own queue.
	behind, farBehind = 5 * time.Millisecond, 200 * time.Millisecond
)

// mark is the payload of a test packet: test id, stream, number in the stream, send time.
type mark struct {
	test   uint64
	stream uint16
	number uint32
	sent   int64 // nanoseconds since 1970
}

func (m mark) put(b []byte) {
	b = b[headers:]
	binary.BigEndian.PutUint64(b, m.test)
	binary.BigEndian.PutUint16(b[8:], m.stream)
	binary.BigEndian.PutUint32(b[10:], m.number)
	binary.BigEndian.PutUint64(b[14:], uint64(m.sent))
}

func readMark(b []byte) (m mark) {
	b = b[headers:]
	return mark{binary.BigEndian.Uint64(b), binary.BigEndian.Uint16(b[8:]), binary.BigEndian.Uint32(b[10:]), int64(binary.BigEndian.Uint64(b[14:]))}
}

// datagram is a packet of a stream, without its mark.
func datagram(s stream) []byte {
	b := make([]byte, s.packet)
	b[0], b[1], b[8], b[9] = 0x45, s.dscp<<2, testTTL, unix.IPPROTO_UDP
	binary.BigEndian.PutUint16(b[2:], uint16(s.packet))
	copy(b[12:], testSource[:])
	copy(b[16:], testSink[:])
	var sum uint32
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	sum = sum>>16 + sum&0xffff
	binary.BigEndian.PutUint16(b[10:], ^uint16(sum>>16+sum))
	binary.BigEndian.PutUint16(b[20:], testPort)
	binary.BigEndian.PutUint16(b[22:], testPort)
	binary.BigEndian.PutUint16(b[24:], uint16(s.packet-20))
	return b // a checksum of UDP of 0: there is none
}

// sender offers one stream to a device.
type sender struct {
	stream
	test   uint64
	fd     int
	to     unix.SockaddrLinklayer
	wire   int // bytes of a packet
	behind time.Duration
	sent   uint32        // accepted or dropped by the queues
	late   time.Duration // maximum delay of the sender
}

// newSender opens the socket in the calling thread's network namespace.
func newSender(s stream, test uint64, index int, mac []byte, wire int) (*sender, error) {
	fd, err := packetsock.Open(nil, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK, packetsock.Option{Level: unix.SOL_SOCKET, Name: unix.SO_SNDBUFFORCE, Value: socketBuffer})
	if err != nil {
		return nil, programNeeds.Fault("open packet socket", err)
	}
	out := &sender{stream: s, test: test, fd: fd, wire: wire, behind: behind, to: unix.SockaddrLinklayer{Protocol: packetsock.Network(unix.ETH_P_IP), Ifindex: index, Halen: uint8(len(mac))}}
	copy(out.to.Addr[:], mac)
	return out, nil
}

// run sends at the stream's rate until ctx ends.
func (s *sender) run(ctx context.Context) error {
	packet := datagram(s.stream)
	perSecond := float64(s.rate) / 8 / float64(s.wire)
	begin, credit := time.Now(), 0.
	for last := begin; ctx.Err() == nil; {
		now := time.Now()
		credit = min(credit+perSecond*now.Sub(last).Seconds(), 1+perSecond*s.behind.Seconds())
		s.late = max(s.late, now.Sub(last))
		for last = now; credit >= 1; credit-- {
			mark{s.test, uint16(s.class), s.sent, time.Now().UnixNano()}.put(packet)
			err := unix.Sendto(s.fd, packet, 0, &s.to)
			if errors.Is(err, unix.EAGAIN) {
				break // the socket buffer is full: try later
			}
			s.sent++
			if err != nil && !errors.Is(err, unix.ENOBUFS) { // ENOBUFS: a queue has dropped it
				return fmt.Errorf("send to the link: %w", err)
			}
		}
		if wait.For(ctx, tick) != nil {
			break
		}
	}
	return nil
}
