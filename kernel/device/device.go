// SPDX-License-Identifier: Apache-2.0

// Package device attaches all programs and qdisc trees of Weir to network devices.
//
// Programs of several modules run by [Order], independent of the order of their attachment
// ([Attach]). A tree replaces a former tree, which is restored exactly later ([Take],
// [Record.Replace], [Record.Restore]); a [Store] keeps the record of it. Foreign programs and trees
// stay unchanged.
//
// Pitfalls:
//   - A program that returns anything but TC_ACT_UNSPEC (-1) ends the chain: later programs do not
//     run. That applies to foreign programs too.
//   - With clsact (Linux before 6.6) an unpinned program survives kill -9 until the next Attach at
//     the device or [Sweep]; a TCX link ends with its process.
//   - The kernel drops the packets queued in a replaced qdisc. There is always a qdisc for new
//     packets, but hfsc and drr drop unclassified packets until the tree's filters are installed.
//   - Trees are compared by their dumps. tbf and htb dump a burst in ticks of 64 ns, so a restored
//     burst may be smaller by the bytes of one tick.
//   - A device that is deleted or moves to another namespace loses its qdiscs: [ErrGone] means that
//     nothing is left to do.
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
	if d, there := rtnl.Named(all, dev); there {
		conn, err := tc.Open(ns)
		return conn, d.Index, err
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
