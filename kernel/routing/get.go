// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"weir/kernel/netns"
)

// Asker queries the kernel's route lookup. It is not safe for concurrent use.
type Asker struct{ socket *socket }

// Ask opens an Asker.
func Ask(ns *netns.Namespace) (*Asker, error) {
	s, err := openSocket(ns, 1<<18, 0)
	return &Asker{s}, err
}

// Close closes its socket.
func (a *Asker) Close() { a.socket.close() }

// Hop returns the next hop of a local packet to an address; ok is false if the kernel does not send
// it.
func (a *Asker) Hop(to netip.Addr) (hop Hop, ok bool, err error) {
	s := a.socket
	s.sequence++
	address := to.AsSlice()
	message := make([]byte, unix.SizeofNlMsghdr+unix.SizeofRtMsg, unix.SizeofNlMsghdr+unix.SizeofRtMsg+4+len(address))
	native.PutUint16(message[4:], unix.RTM_GETROUTE)
	native.PutUint16(message[6:], unix.NLM_F_REQUEST)
	native.PutUint32(message[8:], s.sequence)
	body := message[unix.SizeofNlMsghdr:]
	body[0], body[1] = unix.AF_INET, byte(8*len(address))
	if to.Is6() {
		body[0] = unix.AF_INET6
	}
	message = native.AppendUint16(native.AppendUint16(message, uint16(4+len(address))), unix.RTA_DST)
	message = append(message, address...)
	native.PutUint32(message, uint32(len(message)))
	if err := unix.Sendto(s.fd, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return hop, false, fmt.Errorf("ask for the route to %s: %w", to, err)
	}
	n, _, err := unix.Recvfrom(s.fd, s.buffer, 0)
	if err != nil {
		return hop, false, fmt.Errorf("ask for the route to %s: %w", to, err)
	}
	var ignored bool
	_, err = s.messages(s.buffer[:n], s.sequence, &ignored, func(e *Event) {
		const unicast = 1
		if e.Kind == RouteEvent && e.Type == unicast && len(e.Hops) == 1 {
			hop, ok = e.Hops[0], true
		}
	})
	var refused unix.Errno
	if errors.As(err, &refused) {
		return hop, false, nil // unreachable, prohibited: an answer too
	}
	return hop, ok, err
}
