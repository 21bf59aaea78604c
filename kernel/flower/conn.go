// SPDX-License-Identifier: Apache-2.0

package flower

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"weir/kernel/netns"
)

// Conn writes filters of one device. It is not safe for concurrent use.
type Conn struct {
	fd       int
	device   int
	mode     uint32
	sequence uint32
	batch    []byte
	last     int // offset of the last message
	buffer   []byte
}

// batchSize is the maximum number of bytes of one send. The answers must fit into the socket's
// buffer.
const batchSize = 48 << 10

// Open opens a connection that writes filters of a device with a mode: [SkipHardware],
// [SkipSoftware], or 0 for both. The device needs clsact.
func Open(ns *netns.Namespace, device int, mode uint32) (*Conn, error) {
	c := &Conn{device: device, mode: mode, buffer: make([]byte, 1<<18)}
	err := ns.Do(func() (err error) {
		if c.fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE); err != nil {
			return err
		}
		for _, option := range []int{unix.SO_SNDBUFFORCE, unix.SO_RCVBUFFORCE} {
			if err := unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, option, 4<<20); err != nil {
				return err
			}
		}
		// Errors carry the kernel's message and omit the request.
		_ = unix.SetsockoptInt(c.fd, unix.SOL_NETLINK, unix.NETLINK_EXT_ACK, 1)
		_ = unix.SetsockoptInt(c.fd, unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, 1)
		return unix.Bind(c.fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	})
	if err != nil {
		return nil, fmt.Errorf("open rtnetlink socket: %w", err)
	}
	return c, nil
}

// Close closes the connection and discards unflushed filters.
func (c *Conn) Close() { _ = unix.Close(c.fd) }

// Mode returns the mode of the filters.
func (c *Conn) Mode() uint32 { return c.mode }

// Add writes a new filter.
func (c *Conn) Add(r Rule) error {
	return c.put(r, unix.RTM_NEWTFILTER, unix.NLM_F_CREATE|unix.NLM_F_EXCL)
}

// Share writes a new filter and returns the index of its action, which further filters can use. The
// action lives as long as one of them.
func (c *Conn) Share(r Rule) (action uint32, err error) {
	if err := c.Flush(); err != nil {
		return 0, err
	}
	c.last = len(c.batch)
	c.batch = r.encode(c.batch, c.device, unix.RTM_NEWTFILTER, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ECHO, c.mode)
	c.number()
	err = c.exchange(func(f Filter) { action = f.Action })
	if err == nil && action == 0 {
		err = errors.New("write filter: the kernel does not report its action")
	}
	return action, err
}

// Replace atomically replaces the filter with the same chain, priority and handle.
func (c *Conn) Replace(r Rule) error { return c.put(r, unix.RTM_NEWTFILTER, unix.NLM_F_CREATE) }

// Remove removes a filter.
func (c *Conn) Remove(r Rule) error { return c.put(r, unix.RTM_DELTFILTER, 0) }

// Clear removes all filters of a chain. A missing chain is no error.
func (c *Conn) Clear(chain uint32) error {
	b := make([]byte, unix.SizeofNlMsghdr+20)
	native.PutUint32(b[unix.SizeofNlMsghdr+4:], uint32(c.device))
	native.PutUint32(b[unix.SizeofNlMsghdr+12:], clsactIngress)
	b = attribute(b, tcaChain, word(chain))
	native.PutUint32(b, uint32(len(b)))
	native.PutUint16(b[4:], unix.RTM_DELTFILTER)
	native.PutUint16(b[6:], unix.NLM_F_REQUEST)
	c.last = len(c.batch)
	c.batch = append(c.batch, b...)
	return c.queued()
}

func (c *Conn) put(r Rule, kind, flags uint16) error {
	c.last = len(c.batch)
	c.batch = r.encode(c.batch, c.device, kind, flags, c.mode)
	return c.queued()
}

func (c *Conn) number() {
	c.sequence++
	native.PutUint32(c.batch[c.last+8:], c.sequence)
}

// queued numbers the last message and flushes a full batch.
func (c *Conn) queued() error {
	c.number()
	if len(c.batch) >= batchSize {
		return c.Flush()
	}
	return nil
}

// Flush sends the queued filters and returns the errors.
func (c *Conn) Flush() error { return c.exchange(func(Filter) {}) }

// exchange sends the queue and reads the answers; echo receives the filters among them.
func (c *Conn) exchange(echo func(Filter)) error {
	if len(c.batch) == 0 {
		return nil
	}
	flags := native.Uint16(c.batch[c.last+6:])
	native.PutUint16(c.batch[c.last+6:], flags|unix.NLM_F_ACK) // acknowledges the whole batch
	err := unix.Sendto(c.fd, c.batch, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	c.batch = c.batch[:0]
	if err != nil {
		return fmt.Errorf("write filters: %w", err)
	}
	var all []error
	for done := false; !done; {
		n, _, err := unix.Recvfrom(c.fd, c.buffer, 0)
		if err != nil {
			return fmt.Errorf("write filters: %w", err)
		}
		for b := c.buffer[:n]; len(b) >= unix.SizeofNlMsghdr+4; {
			length, kind := int(native.Uint32(b)), native.Uint16(b[4:])
			if kind == unix.RTM_NEWTFILTER && length >= unix.SizeofNlMsghdr {
				if f, ok := filter(b[unix.SizeofNlMsghdr:min(length, len(b))]); ok {
					echo(f)
				}
			}
			if kind == unix.NLMSG_ERROR && length >= unix.SizeofNlMsghdr+4 {
				if code := int32(native.Uint32(b[unix.SizeofNlMsghdr:])); code != 0 && len(all) < 10 {
					all = append(all, fmt.Errorf("write filter: %w%s", unix.Errno(-code), reason(b[:min(length, len(b))])))
				}
				done = done || native.Uint32(b[8:]) == c.sequence
			}
			b = b[min(len(b), max(unix.SizeofNlMsghdr, (length+3)&^3)):]
		}
	}
	return errors.Join(all...)
}

// reason returns the kernel's message for an error.
func reason(b []byte) string {
	const behind, message = unix.SizeofNlMsghdr + 4 + unix.SizeofNlMsghdr, 1 // NLMSGERR_ATTR_MSG
	text := ""
	if len(b) > behind {
		each(b[behind:], func(kind uint16, value []byte) {
			if kind == message && len(value) > 0 {
				text = ": " + unix.ByteSliceToString(value)
			}
		})
	}
	return text
}

func each(b []byte, f func(kind uint16, value []byte)) {
	for len(b) >= 4 {
		length := int(native.Uint16(b))
		if length < 4 || length > len(b) {
			return
		}
		f(native.Uint16(b[2:])&^uint16(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER), b[4:length])
		b = b[min(len(b), (length+3)&^3):]
	}
}
