// SPDX-License-Identifier: Apache-2.0

package station

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// receiveBuffer of a UDP socket, in octets. It is small on purpose: what waits in it has arrived
// and is not counted yet, while what it has no room for is counted by the kernel at once.
const receiveBuffer = 16 << 10

// roomyBuffer is that of flows whose losses count: a socket is not to lose what the path carries.
const roomyBuffer = 1 << 20

// bufferOf is a flow's, as far as the kernel lets it be (net.core.rmem_max).
func bufferOf(f Flow) int {
	if f.Protocol == UDP {
		return receiveBuffer
	}
	return roomyBuffer
}

// Datagram is the octets on the wire of one datagram of a flow to an address, as in an interface's
// counters.
func Datagram(to netip.Addr) uint64 { return Payload + Headers(to) }

// Headers is the octets of IP, UDP and Ethernet around a datagram to an address.
func Headers(to netip.Addr) uint64 { return headersTo(netip.AddrPortFrom(to, 0)) }

// datagrams is one end of a UDP flow: a socket, what it sends by, and who it sends to.
type datagrams struct {
	flow   Flow
	write  func([]byte) error
	drops  func() uint64
	shut   func()
	header uint64 // octets of IP, UDP and Ethernet
	sent   atomic.Uint64
	octets atomic.Uint64
	count  atomic.Uint64
	came   classes
	probes *probes // of the near station of a flow of them
	acked  *acked  // of flows like QUIC's
	trains trains  // of the far station of a flow of them
}

func headersTo(remote netip.AddrPort) uint64 {
	if remote.Addr().Unmap().Is4() {
		return 20 + 8 + Ethernet
	}
	return 40 + 8 + Ethernet
}

// arrived counts one datagram, with its control messages.
func (d *datagrams) arrived(b, control []byte) {
	if d.acked == nil || len(b) == Payload {
		d.count.Add(1)
		d.octets.Add(uint64(len(b)))
	}
	if tos, told := classIn(control); told {
		d.came.came(tos)
	}
	switch {
	case d.flow.Protocol == Trains:
		d.trains.note(b, control)
	case d.probes != nil:
		d.probes.back(b)
	case d.flow.Protocol == Probe:
		_ = d.write(b) // what is lost on its way back is lost
	case d.acked != nil && len(b) == ackOctets:
		d.acked.back(b)
	case d.acked != nil && len(b) == Payload:
		_ = d.write(b[:ackOctets])
	}
}

func (d *datagrams) dscps() DSCPs { return d.came.read() }

func (d *datagrams) echoes() []Echo {
	if d.probes == nil {
		return nil
	}
	return d.probes.all()
}

func (d *datagrams) arrivals() []Arrival { return d.trains.take() }

func (d *datagrams) send(stop <-chan struct{}) error {
	if d.probes != nil {
		return d.probes.send(float64(d.flow.Rate), d.write, stop)
	}
	if d.acked != nil {
		return d.acked.send(d.write, stop)
	}
	return pace(float64(d.flow.Rate), Payload, stop, func() error {
		err := d.write(blank[:Payload])
		// A limit may refuse datagrams with an error, and queues may be full; both are what is to
		// be measured.
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.EAGAIN) {
			return nil
		}
		if err == nil {
			d.sent.Add(Payload)
		}
		return err
	})
}

func (d *datagrams) tally() (Tally, error) {
	count, octets := d.count.Load(), d.octets.Load()
	t := Tally{Octets: octets, Segments: count, Wire: octets + count*d.header, Sent: d.sent.Load(), Drops: d.drops()}
	if d.acked != nil {
		t.Sent = d.acked.octets()
	}
	return t, nil
}

func (d *datagrams) delay() Delay { return Delay{} }

func (d *datagrams) congestion() string { return "" }

func (d *datagrams) close() { d.shut() }

// wantInformation asks for the address that each datagram came to. A socket of IPv4 refuses the
// option of IPv6.
func wantInformation(c *net.UDPConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return fmt.Errorf("ask for packet information: %w", err)
	}
	outer := raw.Control(func(fd uintptr) {
		if unix.SetsockoptInt(int(fd), unix.SOL_IPV6, unix.IPV6_RECVPKTINFO, 1) != nil {
			err = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_PKTINFO, 1)
		}
	})
	if err := errors.Join(outer, err); err != nil {
		return fmt.Errorf("ask for packet information: %w", err)
	}
	return nil
}
