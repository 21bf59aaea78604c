// SPDX-License-Identifier: Apache-2.0

// Package tc adds, lists and deletes qdiscs through rtnetlink.
//
// The package encodes requests itself, because the netlink library's qdisc types lack netem's seed,
// delay tables and per-frame overhead, and their TBF bursts need rate tables. Frame lengths are the
// kernel's: with the Ethernet header, without preamble, FCS and gap; an Overhead adds those if the
// qdisc supports it. A super-packet (GSO) is one packet for every qdisc except tbf and cake: see
// the lab's notes on offloads before adding netem.
package tc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	vnetns "github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"weir/internal/fault"
	"weir/kernel/netns"
	"weir/kernel/rtnl"
)

// Handle names a qdisc or class: major number in the upper 16 bits, minor in the lower.
type Handle uint32

const (
	Root          Handle = 0xffffffff // parent of a device's outermost qdisc
	Clsact        Handle = 0xfffffff1 // parent of clsact and ingress
	ClsactIngress Handle = 0xfffffff2 // parent of filters for received packets
	ClsactEgress  Handle = 0xfffffff3 // parent of filters for sent packets
)

// MakeHandle joins a major and a minor number: MakeHandle(1, 0x10) is "1:10".
func MakeHandle(major, minor uint16) Handle { return Handle(major)<<16 | Handle(minor) }

// String writes a handle as tc(8) does, in hexadecimal: "1:10", "root".
func (h Handle) String() string {
	switch h {
	case Root:
		return "root"
	case Clsact:
		return "clsact"
	}
	text := strconv.FormatUint(uint64(h>>16), 16) + ":"
	if minor := uint64(h & 0xffff); minor != 0 {
		text += strconv.FormatUint(minor, 16)
	}
	return text
}

// Place is the position of a qdisc. The zero Place is the device's root, with a handle chosen by
// the kernel.
type Place struct {
	Parent Handle // 0 means Root
	Handle Handle // 0 lets the kernel choose
}

// Conn is an rtnetlink socket in one namespace, safe for concurrent use until Close. Make one with
// [Open].
type Conn struct {
	devices *rtnl.Conn
	sockets map[int]*nl.SocketHandle
}

// Open returns a Conn to ns; nil means the calling thread's own namespace.
func Open(ns *netns.Namespace) (*Conn, error) {
	devices, err := rtnl.Open(ns)
	if err != nil {
		return nil, err
	}
	var socket *nl.NetlinkSocket
	err = ns.Do(func() (err error) {
		socket, err = nl.GetNetlinkSocketAt(vnetns.None(), vnetns.None(), unix.NETLINK_ROUTE)
		return err
	})
	if err == nil {
		err = socket.SetExtAck(true) // error messages from the kernel
	}
	if err != nil {
		devices.Close()
		return nil, fmt.Errorf("open tc socket: %w", err)
	}
	return &Conn{devices: devices, sockets: map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Socket: socket}}}, nil
}

// Close releases the sockets; qdiscs stay.
func (c *Conn) Close() {
	c.devices.Close()
	c.sockets[unix.NETLINK_ROUTE].Close()
}

// Delete removes the qdisc at a place and everything below it.
func (c *Conn) Delete(dev string, at Place) error {
	if err := c.request(unix.RTM_DELQDISC, 0, dev, at, "", nil); err != nil {
		return fmt.Errorf("delete qdisc of %s at %s: %w", dev, at.parent(), err)
	}
	return nil
}

// Add creates a qdisc of any kind from its encoded TCA_OPTIONS. An occupied place is an error. If
// the kernel lacks the kind, the error contains advice.
func (c *Conn) Add(kind, dev string, at Place, options []byte) error {
	err := c.request(unix.RTM_NEWQDISC, unix.NLM_F_CREATE|unix.NLM_F_EXCL, dev, at, kind, options)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("add %s to %s: %w", kind, dev, err)
	if errors.Is(err, unix.ENOENT) {
		option := "CONFIG_NET_SCH_" + strings.ToUpper(kind)
		if kind == "clsact" {
			option = "CONFIG_NET_SCH_INGRESS"
		}
		return fault.Wrap(err, fault.Testbed, "use a kernel with "+option+", or load the module sch_"+kind)
	}
	return err
}

const allProtocols = 0x0300 // ETH_P_ALL in network order

// AddFilter adds a classifier for all protocols from its encoded TCA_OPTIONS. The lowest priority
// number runs first.
func (c *Conn) AddFilter(dev string, parent Handle, priority uint16, kind string, options []byte) error {
	info := uint32(priority)<<16 | allProtocols
	flags := unix.NLM_F_CREATE | unix.NLM_F_EXCL
	if err := c.requestInfo(unix.RTM_NEWTFILTER, flags, dev, Place{Parent: parent}, info, kind, options); err != nil {
		return fmt.Errorf("add filter %s to %s: %w", kind, dev, err)
	}
	return nil
}

func (at Place) parent() Handle {
	if at.Parent == 0 {
		return Root
	}
	return at.Parent
}

func (c *Conn) request(message, flags int, dev string, at Place, kind string, options []byte) error {
	return c.requestInfo(message, flags, dev, at, 0, kind, options)
}

// requestInfo sends one change and waits for the kernel's response. It omits an empty kind and
// empty options.
func (c *Conn) requestInfo(message, flags int, dev string, at Place, info uint32, kind string, options []byte) error {
	device, err := c.devices.Device(dev)
	if err != nil {
		return err
	}
	request := nl.NewNetlinkRequest(message, flags|unix.NLM_F_ACK)
	request.Sockets = c.sockets
	request.AddData(&nl.TcMsg{Ifindex: int32(device.Index), Parent: uint32(at.parent()), Handle: uint32(at.Handle), Info: info})
	if kind != "" {
		request.AddData(nl.NewRtAttr(nl.TCA_KIND, nl.ZeroTerminated(kind)))
	}
	if options != nil {
		request.AddData(nl.NewRtAttr(nl.TCA_OPTIONS, options))
	}
	_, err = request.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

// List returns a device's qdiscs with their counters, outermost first. Default qdiscs (noqueue,
// pfifo_fast) have handle 0.
func (c *Conn) List(dev string) ([]Qdisc, error) {
	device, err := c.devices.Device(dev)
	if err != nil {
		return nil, fmt.Errorf("list qdiscs: %w", err)
	}
	for attempt := 1; ; attempt++ {
		qdiscs, err := c.dump(device.Index)
		if attempt < 10 && errors.Is(err, netlink.ErrDumpInterrupted) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list qdiscs of %s: %w", dev, err)
		}
		return qdiscs, nil
	}
}

func (c *Conn) dump(index int) ([]Qdisc, error) {
	all, err := c.dumpAll(index)
	return all[index], err
}

// All returns the qdiscs of all devices in one dump, by device index. A dump that was interrupted
// by a change is an error.
func (c *Conn) All() (map[int][]Qdisc, error) {
	all, err := c.dumpAll(0)
	if err != nil {
		return nil, fmt.Errorf("list qdiscs: %w", err)
	}
	return all, nil
}

// dumpAll requests the qdiscs of one device; the kernel returns those of all devices.
func (c *Conn) dumpAll(index int) (map[int][]Qdisc, error) {
	request := nl.NewNetlinkRequest(unix.RTM_GETQDISC, unix.NLM_F_DUMP)
	request.Sockets = c.sockets
	request.AddData(&nl.TcMsg{Ifindex: int32(index)})
	messages, err := request.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWQDISC)
	if err != nil {
		return nil, err
	}
	qdiscs := map[int][]Qdisc{}
	for _, message := range messages {
		qdisc, owner, err := decodeQdisc(message)
		if err != nil {
			return nil, err
		}
		qdiscs[owner] = append(qdiscs[owner], qdisc)
	}
	return qdiscs, nil
}

// Roots returns the outermost qdisc of each device, by the device's name.
func (c *Conn) Roots() (map[string]Qdisc, error) {
	devices, err := c.devices.Devices()
	if err != nil {
		return nil, fmt.Errorf("list qdiscs: %w", err)
	}
	roots := map[string]Qdisc{}
	for _, device := range devices {
		all, err := c.dump(device.Index)
		if err != nil {
			return nil, fmt.Errorf("list qdiscs of %s: %w", device.Name, err)
		}
		for _, qdisc := range all {
			if qdisc.Parent == Root {
				roots[device.Name] = qdisc
			}
		}
	}
	return roots, nil
}

// attribute appends a route attribute to b: length, type, value, padding to four octets.
func attribute(b []byte, kind uint16, value []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(4+len(value)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, value...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

// words encodes 32-bit fields one after the other, as most of tc's structures are.
func words(values ...uint32) []byte {
	var b []byte
	for _, value := range values {
		b = binary.NativeEndian.AppendUint32(b, value)
	}
	return b
}

func long(value uint64) []byte { return binary.NativeEndian.AppendUint64(nil, value) }
