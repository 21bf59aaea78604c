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

// receiveBuffer is the receive buffer of a UDP socket in bytes. It is small on purpose: datagrams
// waiting in it are not counted yet, while the kernel counts datagrams beyond it at once.
const receiveBuffer = 16 << 10

// roomyBuffer is the buffer of flows with counted losses: the socket must not lose datagrams that
// the path carried.
const roomyBuffer = 1 << 20

// bufferOf returns the receive buffer for a flow, within net.core.rmem_max.
func bufferOf(f Flow) int {
	if f.Protocol == UDP {
		return receiveBuffer
	}
	return roomyBuffer
}

// Datagram returns the bytes on the wire of one datagram of a flow to an address, as in an
// interface's counters.
func Datagram(to netip.Addr) uint64 { return Payload + Headers(to) }

// Headers returns the bytes of IP, UDP and Ethernet around a datagram to an address.
func Headers(to netip.Addr) uint64 { return headersTo(netip.AddrPortFrom(to, 0)) }

// datagrams is one end of a UDP flow: a socket, its pace, and its remote address.
type datagrams struct {
	flow   Flow
	write  func([]byte) error
	drops  func() uint64
	shut   func()
	header uint64 // bytes of IP, UDP and Ethernet
	sent   atomic.Uint64
	octets atomic.Uint64
	count  atomic.Uint64
	came   classes
	probes *probes // for the near station of a flow of probes
	acked  *acked  // for flows like QUIC
	trains trains  // for the far station of a flow of trains
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
		_ = d.write(b) // a lost echo counts as a lost probe
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
		// A limit may reject datagrams with an error, and queues may be full: the test measures
		// both.
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

// wantInformation requests the destination address of each datagram. An IPv4 socket rejects the
// IPv6 option.
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
