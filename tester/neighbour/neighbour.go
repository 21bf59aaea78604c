// SPDX-License-Identifier: Apache-2.0

// Package neighbour answers ARP requests (RFC 826) and IPv6 neighbour solicitations (RFC 4861) for
// the addresses of the streams at a port, so that a router under test can resolve hosts that do not
// exist.
//
// It answers only for addresses of streams, and not for the kernel's own. Answers are bounded by
// [Rate] and [Burst]: requests beyond are counted and get no answer. Frames that a device drops
// while it waits for an answer are lost, as with any other host.
package neighbour

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"weir/kernel/netns"
	"weir/kernel/packetsock"
	"weir/kernel/rtnl"
)

const (
	Rate  = 1000 // answers per second, in the long run
	Burst = 1024 // answers at once
)

// Counts counts requests for addresses of streams by result.
type Counts struct {
	ARP    uint64 `json:"arp"`    // answered ARP requests
	ND     uint64 `json:"nd"`     // answered neighbour solicitations
	Beyond uint64 `json:"beyond"` // requests beyond the bound: not answered
	Unsent uint64 `json:"unsent"` // answers that the device did not take
}

// Sum adds the counts of several ports; nil if there was no request.
func Sum(all ...*Counts) *Counts {
	var c Counts
	for _, one := range all {
		if one != nil {
			c.ARP += one.ARP
			c.ND += one.ND
			c.Beyond += one.Beyond
			c.Unsent += one.Unsent
		}
	}
	if c == (Counts{}) {
		return nil
	}
	return &c
}

// Responder answers at one port until Close.
type Responder struct {
	set  Set
	own  net.HardwareAddr
	fd   int
	wake int // eventfd that ends the loop
	done chan struct{}
	once sync.Once

	mu     sync.Mutex // guards the fields below
	counts Counts
	failed error
}

// Open starts to answer for the set at a device; nil is the caller's own namespace. The kernel
// removes all state with the process.
func Open(ns *netns.Namespace, device string, set Set) (*Responder, error) {
	own, err := addresses(ns)
	if err != nil {
		return nil, fmt.Errorf("answer for neighbours on %s: %w", device, err)
	}
	set.Leave(own...)
	r := &Responder{set: set, fd: -1, wake: -1, done: make(chan struct{})}
	if err := r.open(ns, device); err != nil {
		r.release()
		return nil, fmt.Errorf("answer for neighbours on %s: %w", device, err)
	}
	go r.serve()
	return r, nil
}

// addresses lists the addresses for which the namespace's kernel answers.
func addresses(ns *netns.Namespace) (all []netip.Addr, err error) {
	err = ns.Do(func() error {
		list, err := net.InterfaceAddrs()
		for _, a := range list {
			if prefix, err := netip.ParsePrefix(a.String()); err == nil {
				all = append(all, prefix.Addr().Unmap())
			}
		}
		return err
	})
	return all, err
}

func (r *Responder) open(ns *netns.Namespace, dev string) error {
	conn, err := rtnl.Open(ns)
	if err != nil {
		return err
	}
	defer conn.Close()
	device, err := conn.Device(dev)
	if err != nil {
		return err
	}
	r.own = device.MAC
	if r.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return err
	}
	if r.fd, err = packetsock.Open(ns, unix.SOCK_RAW|unix.SOCK_NONBLOCK, packetsock.VLANTags, packetsock.NoOutgoing); err != nil {
		return err
	}
	// Solicitations go to multicast groups that the device may not have joined; the socket's
	// membership ends with it.
	groups := unix.PacketMreq{Ifindex: int32(device.Index), Type: unix.PACKET_MR_ALLMULTI}
	return errors.Join(
		unix.SetsockoptSockFprog(r.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, requests()),
		unix.SetsockoptPacketMreq(r.fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &groups),
		packetsock.Bind(r.fd, device.Index, unix.ETH_P_ALL),
	)
}

// Counts returns the counts so far.
func (r *Responder) Counts() Counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts
}

// Close ends the answers and returns an earlier error of the loop. It is safe to call twice.
func (r *Responder) Close() error {
	r.once.Do(func() {
		_, _ = unix.Write(r.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
		<-r.done
		r.release()
	})
	return r.failed
}

func (r *Responder) release() {
	for _, fd := range []int{r.fd, r.wake} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// bucket bounds the rate of answers.
type bucket struct {
	left float64
	at   time.Time
}

func (b *bucket) take(now time.Time) bool {
	b.left = min(Burst, b.left+now.Sub(b.at).Seconds()*Rate)
	b.at = now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}
