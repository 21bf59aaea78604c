// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weir/kernel/netns"
	"weir/kernel/tc"
)

// shape holds the device properties that determine defaults of qdiscs.
type shape struct {
	queues, mtu, length int
}

func shapeOf(ns *netns.Namespace, index int) (s shape, err error) {
	err = ns.Do(func() error {
		handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		defer handle.Close()
		link, err := handle.LinkByIndex(index)
		if err != nil {
			return err
		}
		a := link.Attrs()
		s = shape{queues: max(a.NumTxQueues, 1), mtu: a.MTU, length: a.TxQLen}
		return nil
	})
	if err != nil {
		return shape{}, fmt.Errorf("read queues of device %d: %w", index, err)
	}
	return s, nil
}

// rehearse sets up a tree on a similar device in a temporary namespace, and returns it as dumped by
// the kernel. The error is the kernel's reason for rejecting it.
func rehearse(s shape, want Tree) (got Tree, err error) {
	err = netns.Fresh(func() error {
		handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		defer handle.Close()
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU, attrs.NumTxQueues, attrs.NumRxQueues, attrs.TxQLen = "rehearsal", min(max(s.mtu, 68), 65535), s.queues, s.queues, s.length
		pair := netlink.NewVeth(attrs)
		pair.PeerName = "peer"
		if err := handle.LinkAdd(pair); err != nil {
			return fmt.Errorf("add a device: %w", err)
		}
		if err := handle.LinkSetUp(pair); err != nil {
			return err
		}
		link, err := handle.LinkByName(attrs.Name)
		if err != nil {
			return err
		}
		conn, err := tc.Open(nil)
		if err != nil {
			return err
		}
		defer conn.Close()
		b := builder{conn: conn, index: link.Attrs().Index, step: func() {}}
		if _, err := b.build(want); err != nil {
			return err
		}
		got, err = snapshot(conn, b.index)
		return err
	})
	if err == nil {
		err = strayed(want, got)
	}
	if err != nil {
		return Tree{}, fmt.Errorf("rehearse: %w", err)
	}
	return got.made(), nil
}

// strayed returns an error for a class with another parent: htb replaces a missing parent by the
// root.
func strayed(want, got Tree) error {
	atRoot := func(parent tc.Handle) bool { return parent == tc.Root || parent&0xffff == 0 }
	for _, w := range want.Classes {
		for _, g := range got.Classes {
			if g.Handle == w.Handle && g.Parent != w.Parent && !(atRoot(g.Parent) && atRoot(w.Parent)) {
				return fmt.Errorf("class %s has no parent %s", w.Handle, w.Parent)
			}
		}
	}
	return nil
}
