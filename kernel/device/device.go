// SPDX-License-Identifier: Apache-2.0

// Package device is the one owner of what Weir puts at network devices: programs at their ingress
// and egress, and qdisc trees.
//
// Programs of several rooms stay in their order, whatever order they are attached in ([Attach]); a
// tree is put in place of a former one, which comes back exactly ([Take], [Record.Replace],
// [Record.Restore]). What is foreign stays as it is.
//
// What bites:
//   - A program that returns anything but TC_ACT_UNSPEC (-1) ends the list: those behind it do not
//     see the packet. That is so for foreign programs too.
//   - With clsact (Linux before 6.6) a program that is not pinned stays after kill -9 until anyone
//     attaches at the device or calls [Sweep]; a TCX link goes with its process.
//   - What waits in a qdisc that is replaced is lost: the kernel drops it. New packets are never
//     without a qdisc, but hfsc and drr drop what they cannot classify, so that a tree of these
//     drops for the moment until its filters are there.
//   - A tree is compared by what the kernel dumps. tbf and htb dump a burst in ticks of 64 ns, so
//     that a restored burst may be smaller than the former one by what the rate sends in a tick.
//   - Devices that move to another namespace or go lose their qdiscs by themselves: [ErrGone] says
//     that nothing is left to do.
package device

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"weir/internal/fault"
	"weir/kernel/netns"
	"weir/kernel/rtnl"
	"weir/kernel/tc"
)

// ErrGone is returned if a device was deleted, moved to another namespace, or replaced by one of
// the same name.
var ErrGone = errors.New("the device is gone")

// open returns a connection to ns and the device's index.
func open(ns *netns.Namespace, dev string) (*tc.Conn, int, error) {
	links, err := rtnl.Open(ns)
	if err != nil {
		return nil, 0, err
	}
	defer links.Close()
	all, err := links.Devices()
	if err != nil {
		return nil, 0, err
	}
	for _, d := range all {
		if d.Name == dev {
			conn, err := tc.Open(ns)
			return conn, d.Index, err
		}
	}
	return nil, 0, fault.Wrap(fmt.Errorf("find device %s: %w", dev, ErrGone), fault.Usage,
		"look with ip link; a device that has moved is in another namespace")
}

// find returns the device that had this name and index: a renamed one is the same, another one of
// the same name is not.
func find(ns *netns.Namespace, dev string, index int) (*tc.Conn, error) {
	links, err := rtnl.Open(ns)
	if err != nil {
		return nil, err
	}
	defer links.Close()
	all, err := links.Devices()
	if err != nil {
		return nil, err
	}
	for _, d := range all {
		if d.Index == index {
			return tc.Open(ns)
		}
	}
	for _, d := range all {
		if d.Name == dev {
			return nil, fmt.Errorf("find device %s: another one has its name, with index %d in place of %d: %w", dev, d.Index, index, ErrGone)
		}
	}
	return nil, fmt.Errorf("find device %s with index %d: %w", dev, index, ErrGone)
}

// inode identifies a namespace; nil is the calling thread's.
func inode(ns *netns.Namespace) (uint64, error) {
	var status unix.Stat_t
	err := ns.Do(func() error { return unix.Stat("/proc/thread-self/ns/net", &status) })
	if err != nil {
		return 0, fmt.Errorf("identify namespace: %w", err)
	}
	return status.Ino, nil
}

// locate returns the identity of a device within this boot.
func locate(ns *netns.Namespace, dev string) (namespace uint64, index int, err error) {
	conn, index, err := open(ns, dev)
	if err != nil {
		return 0, 0, err
	}
	conn.Close()
	namespace, err = inode(ns)
	return namespace, index, err
}

func bootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("identify boot: %w", err)
	}
	return strings.TrimSpace(string(id)), nil
}
