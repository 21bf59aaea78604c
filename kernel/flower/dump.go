// SPDX-License-Identifier: Apache-2.0

package flower

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Filters returns all filters at the device's ingress. Filters of other kinds than flower have only
// kind, chain and priority.
func (c *Conn) Filters() (all []Filter, err error) {
	request := make([]byte, unix.SizeofNlMsghdr+20)
	c.sequence++
	native.PutUint32(request, uint32(len(request)))
	native.PutUint16(request[4:], unix.RTM_GETTFILTER)
	native.PutUint16(request[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	native.PutUint32(request[8:], c.sequence)
	native.PutUint32(request[20:], uint32(c.device))
	native.PutUint32(request[28:], clsactIngress)
	if err := unix.Sendto(c.fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, fmt.Errorf("read filters: %w", err)
	}
	for {
		n, _, err := unix.Recvfrom(c.fd, c.buffer, 0)
		if err != nil {
			return nil, fmt.Errorf("read filters: %w", err)
		}
		for b := c.buffer[:n]; len(b) >= unix.SizeofNlMsghdr; {
			length, kind := int(native.Uint32(b)), native.Uint16(b[4:])
			switch {
			case length < unix.SizeofNlMsghdr || length > len(b):
				return nil, fmt.Errorf("read filters: a message is cut short")
			case kind == unix.NLMSG_DONE:
				return all, nil
			case kind == unix.NLMSG_ERROR:
				return nil, fmt.Errorf("read filters: %w", unix.Errno(-int32(native.Uint32(b[unix.SizeofNlMsghdr:]))))
			case kind == unix.RTM_NEWTFILTER:
				if one, ok := filter(b[unix.SizeofNlMsghdr:length]); ok {
					all = append(all, one)
				}
			}
			b = b[min(len(b), (length+3)&^3):]
		}
	}
}
