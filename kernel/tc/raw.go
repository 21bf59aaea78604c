// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Raw is a qdisc, class or filter with encoded options. [Raw.Creatable] converts a dumped one to a
// create request.
type Raw struct {
	Kind     string `json:"kind"`
	Handle   Handle `json:"handle,omitempty"`
	Parent   Handle `json:"parent,omitempty"`
	Info     uint32 `json:"info,omitempty"`     // of a filter: priority in the upper 16 bits, protocol in network order below
	Chain    uint32 `json:"chain,omitempty"`    // of a filter
	Options  []byte `json:"options,omitempty"`  // value of TCA_OPTIONS
	Stab     []byte `json:"stab,omitempty"`     // value of TCA_STAB: sizes that packets are counted with
	Blocks   []byte `json:"blocks,omitempty"`   // TCA_INGRESS_BLOCK and TCA_EGRESS_BLOCK: filters shared with other devices
	Hardware bool   `json:"hardware,omitempty"` // done by the device
}

// Priority returns the priority of a filter; lower numbers match first.
func (r Raw) Priority() uint16 { return uint16(r.Info >> 16) }

// Attributes of messages about qdiscs, classes and filters (linux/rtnetlink.h).
const (
	tcaOptions      = 2
	tcaStab         = 8
	tcaChain        = 11
	tcaHwOffload    = 12
	tcaIngressBlock = 13
	tcaEgressBlock  = 14
)

// Message is the sort of a Raw.
type Message int

const (
	QdiscMessage  Message = unix.RTM_NEWQDISC
	ClassMessage  Message = unix.RTM_NEWTCLASS
	FilterMessage Message = unix.RTM_NEWTFILTER
)

// Dump lists a device's objects of one sort; filters of one parent. It omits entries of a priority
// without filter.
func (c *Conn) Dump(sort Message, index int, parent Handle) ([]Raw, error) {
	for attempt := 1; ; attempt++ {
		all, err := c.dumpRaw(sort, index, parent)
		if attempt < 10 && errors.Is(err, netlink.ErrDumpInterrupted) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", sort, err)
		}
		return all, nil
	}
}

func (m Message) String() string {
	switch m {
	case ClassMessage:
		return "classes"
	case FilterMessage:
		return "filters"
	}
	return "qdiscs"
}

func (c *Conn) dumpRaw(sort Message, index int, parent Handle) ([]Raw, error) {
	get := int(sort) + 2 // RTM_GETx is RTM_NEWx + 2 for all three
	request := nl.NewNetlinkRequest(get, unix.NLM_F_DUMP)
	request.Sockets = c.sockets
	request.AddData(&nl.TcMsg{Ifindex: int32(index), Parent: uint32(parent)})
	messages, err := request.Execute(unix.NETLINK_ROUTE, uint16(sort))
	if err != nil {
		return nil, err
	}
	var all []Raw
	for _, message := range messages {
		raw, owner, err := decodeRaw(message)
		if err != nil {
			return nil, err
		}
		if owner != index || sort == FilterMessage && raw.Options == nil {
			continue
		}
		if sort != FilterMessage {
			raw.Info = 0 // a count of references, or the leaf below a class
		}
		all = append(all, raw)
	}
	return all, nil
}

func decodeRaw(message []byte) (raw Raw, owner int, err error) {
	if len(message) < sizeofTcMsg {
		return Raw{}, 0, fmt.Errorf("decode tc message: %w", errShort)
	}
	order := binary.NativeEndian
	owner = int(int32(order.Uint32(message[4:])))
	raw.Handle, raw.Parent, raw.Info = Handle(order.Uint32(message[8:])), Handle(order.Uint32(message[12:])), order.Uint32(message[16:])
	err = attributes(message[sizeofTcMsg:], func(kind uint16, value []byte) error {
		switch kind {
		case tcaKind:
			raw.Kind = unix.ByteSliceToString(value)
		case tcaOptions:
			raw.Options = append([]byte{}, value...)
		case tcaStab:
			raw.Stab = append([]byte{}, value...)
		case tcaIngressBlock, tcaEgressBlock:
			raw.Blocks = attribute(raw.Blocks, kind, value)
		case tcaHwOffload:
			raw.Hardware = len(value) > 0 && value[0] != 0
		case tcaChain:
			if len(value) < 4 {
				return errShort
			}
			raw.Chain = order.Uint32(value)
		}
		return nil
	})
	if err != nil {
		return Raw{}, 0, fmt.Errorf("decode tc message: %w", err)
	}
	return raw, owner, nil
}

// Flags of [Conn.Put].
const (
	Create  = unix.NLM_F_CREATE
	Only    = unix.NLM_F_EXCL // an existing object is an error
	Replace = unix.NLM_F_REPLACE
)

// Put creates or changes an object of the device with this index. Without Create it changes only
// existing ones.
func (c *Conn) Put(sort Message, flags, index int, raw Raw) error {
	if err := c.sendRaw(int(sort), flags, index, raw); err != nil {
		return fmt.Errorf("put %s %s at %s: %w", raw.Kind, raw.Handle, raw.Parent, err)
	}
	return nil
}

// Remove takes an object away with everything below it.
func (c *Conn) Remove(sort Message, index int, raw Raw) error {
	raw.Options, raw.Stab, raw.Blocks = nil, nil, nil
	if sort == ClassMessage {
		raw.Kind = ""
	}
	if err := c.sendRaw(int(sort)+1, 0, index, raw); err != nil { // RTM_DELx is RTM_NEWx + 1
		return fmt.Errorf("remove %s %s at %s: %w", raw.Kind, raw.Handle, raw.Parent, err)
	}
	return nil
}

func (c *Conn) sendRaw(message, flags, index int, raw Raw) error {
	request := nl.NewNetlinkRequest(message, flags|unix.NLM_F_ACK)
	request.Sockets = c.sockets
	request.AddData(&nl.TcMsg{Ifindex: int32(index), Parent: uint32(raw.Parent), Handle: uint32(raw.Handle), Info: raw.Info})
	if raw.Kind != "" {
		request.AddData(nl.NewRtAttr(nl.TCA_KIND, nl.ZeroTerminated(raw.Kind)))
	}
	if raw.Options != nil {
		request.AddData(nl.NewRtAttr(nl.TCA_OPTIONS|nested, raw.Options)) // some kinds insist on the flag, none dislikes it
	}
	if raw.Stab != nil {
		request.AddData(nl.NewRtAttr(tcaStab|nested, raw.Stab))
	}
	if raw.Chain != 0 {
		request.AddData(nl.NewRtAttr(tcaChain, words(raw.Chain)))
	}
	if raw.Blocks != nil {
		request.AddRawData(raw.Blocks)
	}
	_, err := request.Execute(unix.NETLINK_ROUTE, 0)
	return err
}
