// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Qdisc is an existing qdisc and its counters.
type Qdisc struct {
	Kind       string
	Handle     Handle
	Parent     Handle
	Bytes      uint64 // sent on, with the Ethernet header
	Packets    uint64 // sent on
	Drops      uint64
	Overlimits uint64 // times a packet had to wait for the rate
	Requeues   uint64
	Backlog    uint64 // bytes in the queue
	Queued     uint64 // packets that wait now
	Marked     uint64 // packets marked with congestion experienced, of codel, fq_codel and pie
}

// Attributes of qdisc messages and of their statistics (linux/rtnetlink.h, linux/gen_stats.h).
const (
	tcaKind   = 1
	tcaStats2 = 7

	statsBasic = 1 // u64 bytes, u32 packets
	statsQueue = 3 // u32 qlen, backlog, drops, requeues, overlimits
	statsApp   = 4 // the kind's own
	statsPkt64 = 8 // u64 packets, where 32 bit would not do

	sizeofTcMsg = 20
)

var errShort = errors.New("message ends early")

// decodeQdisc reads an RTM_NEWQDISC message without its netlink header; owner is the index of its
// device.
func decodeQdisc(message []byte) (qdisc Qdisc, owner int, err error) {
	if len(message) < sizeofTcMsg {
		return Qdisc{}, 0, fmt.Errorf("decode qdisc: %w", errShort)
	}
	order := binary.NativeEndian
	owner = int(int32(order.Uint32(message[4:])))
	qdisc.Handle = Handle(order.Uint32(message[8:]))
	qdisc.Parent = Handle(order.Uint32(message[12:]))
	err = attributes(message[sizeofTcMsg:], func(kind uint16, value []byte) error {
		switch kind {
		case tcaKind:
			qdisc.Kind = unix.ByteSliceToString(value)
		case tcaStats2:
			return attributes(value, qdisc.statistic)
		}
		return nil
	})
	if err != nil {
		return Qdisc{}, 0, fmt.Errorf("decode qdisc: %w", err)
	}
	return qdisc, owner, nil
}

// statistic decodes an attribute of TCA_STATS2. Newer kernels append fields, which are ignored.
func (q *Qdisc) statistic(kind uint16, value []byte) error {
	order := binary.NativeEndian
	switch {
	case kind == statsBasic && len(value) >= 12:
		q.Bytes = order.Uint64(value)
		q.Packets = max(q.Packets, uint64(order.Uint32(value[8:])))
	case kind == statsPkt64 && len(value) >= 8:
		q.Packets = order.Uint64(value)
	case kind == statsQueue && len(value) >= 20:
		q.Queued = uint64(order.Uint32(value))
		q.Backlog = uint64(order.Uint32(value[4:]))
		q.Drops = uint64(order.Uint32(value[8:]))
		q.Requeues = uint64(order.Uint32(value[12:]))
		q.Overlimits = uint64(order.Uint32(value[16:]))
	case kind == statsApp:
		q.Marked = marks(q.Kind, value) // the kind precedes it
	case kind == statsBasic || kind == statsPkt64 || kind == statsQueue:
		return fmt.Errorf("statistic %d: %w", kind, errShort)
	}
	return nil
}

// attributes calls f with every route attribute of b, the flags in its type removed.
func attributes(b []byte, f func(kind uint16, value []byte) error) error {
	for len(b) >= unix.SizeofRtAttr {
		length := int(binary.NativeEndian.Uint16(b))
		if length < unix.SizeofRtAttr || length > len(b) {
			return errShort
		}
		kind := binary.NativeEndian.Uint16(b[2:]) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
		if err := f(kind, b[unix.SizeofRtAttr:length]); err != nil {
			return err
		}
		b = b[min((length+3)&^3, len(b)):]
	}
	return nil
}
