// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"fmt"
	"iter"
	"net/netip"

	"golang.org/x/sys/unix"

	"weir/kernel/netns"
)

// Use marks neighbours as used, because the kernel does not see packets of the fast path. The
// kernel then verifies stale neighbours.
func Use(ns *netns.Namespace, neighbors iter.Seq2[int, netip.Addr]) error {
	s, err := openSocket(ns, 1<<16, 0)
	if err != nil {
		return err
	}
	defer s.close()
	for link, at := range neighbors {
		message := make([]byte, unix.SizeofNlMsghdr+unix.SizeofNdMsg)
		native.PutUint16(message[4:], unix.RTM_NEWNEIGH)
		native.PutUint16(message[6:], unix.NLM_F_REQUEST)
		body := message[unix.SizeofNlMsghdr:]
		body[0], body[10] = unix.AF_INET, unix.NTF_USE
		if at.Is6() {
			body[0] = unix.AF_INET6
		}
		native.PutUint32(body[4:], uint32(link))
		address := at.AsSlice()
		message = native.AppendUint16(native.AppendUint16(message, uint16(4+len(address))), unix.NDA_DST)
		message = append(message, address...)
		native.PutUint32(message, uint32(len(message)))
		if err := unix.Sendto(s.fd, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			return fmt.Errorf("use neighbour %s: %w", at, err)
		}
	}
	return nil
}
