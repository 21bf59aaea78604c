// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weir/kernel/netns"
)

// Watch reports that devices of a network namespace appeared, disappeared, or changed their name,
// alternative names, MTU, master, or link-layer address. Changes of state and counters cause no
// event. The kernel reports a new alternative name only if the device is up.
type Watch struct {
	file *os.File
	seen map[int]string // description of each device, by index
	// Changed receives a value after changes; one value may stand for many.
	Changed chan struct{}
}

// watchBuffer is the size of the socket's receive buffer: events of some thousand devices.
const watchBuffer = 4 << 20

// WatchDevices subscribes to the devices of a namespace; nil is the calling thread's. Call Run to
// receive events, and Close to end it.
func WatchDevices(ns *netns.Namespace) (*Watch, error) {
	fd := -1
	err := ns.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("watch devices: %w", err)
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, watchBuffer) // a lost event is reported too
	err = unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1 << (unix.RTNLGRP_LINK - 1)})
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("watch devices: %w", err)
	}
	return &Watch{os.NewFile(uintptr(fd), "rtnetlink"), map[int]string{}, make(chan struct{}, 1)}, nil
}

// Run receives events until Close.
func (w *Watch) Run() error {
	buffer := make([]byte, 64<<10)
	for {
		n, err := w.file.Read(buffer)
		switch {
		case errors.Is(err, os.ErrClosed):
			return nil
		case errors.Is(err, unix.ENOBUFS): // events were lost
			clear(w.seen)
			w.report()
		case err != nil:
			return fmt.Errorf("receive events of devices: %w", err)
		case w.changes(buffer[:n]):
			w.report()
		}
	}
}

// spacing bounds the rate of values while many devices change: events wait in the socket meanwhile.
const spacing = 50 * time.Millisecond

func (w *Watch) report() {
	select {
	case w.Changed <- struct{}{}:
	default:
	}
	time.Sleep(spacing)
}

// changes reports whether messages of the kernel describe a change.
func (w *Watch) changes(messages []byte) (changed bool) {
	for len(messages) >= unix.SizeofNlMsghdr {
		header := unix.NlMsghdr{Len: binary.NativeEndian.Uint32(messages), Type: binary.NativeEndian.Uint16(messages[4:])}
		if header.Len < unix.SizeofNlMsghdr || int(header.Len) > len(messages) {
			return changed
		}
		if w.change(header, messages[unix.SizeofNlMsghdr:header.Len]) {
			changed = true
		}
		messages = messages[min(len(messages), int(header.Len+3)&^3):]
	}
	return changed
}

func (w *Watch) change(header unix.NlMsghdr, message []byte) bool {
	if header.Type != unix.RTM_NEWLINK && header.Type != unix.RTM_DELLINK || len(message) < unix.SizeofIfInfomsg {
		return false
	}
	link, err := netlink.LinkDeserialize(&header, message)
	if err != nil {
		return true
	}
	a := link.Attrs()
	if message[0] != unix.AF_UNSPEC { // a port of a bridge
		return false
	}
	if header.Type == unix.RTM_DELLINK {
		delete(w.seen, a.Index)
		return true
	}
	now := fmt.Sprint(a.Name, a.AltNames, a.MTU, a.MasterIndex, a.HardwareAddr)
	same := w.seen[a.Index] == now
	w.seen[a.Index] = now
	return !same
}

// Close ends Run.
func (w *Watch) Close() error { return w.file.Close() }
