// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"weir/kernel/netns"
	"weir/kernel/rtnl"
	"weir/modules/limit/shape"
)

// namespaces calls a function for all network namespaces. Tests replace it.
var namespaces = netns.Each

// uplinks holds the last answer of recentUplink.
var uplinks struct {
	sync.Mutex
	namespace string // of the thread
	at        time.Time
	found     string
	err       error
}

// recentUplink is anUplink with an answer of the last second: it looks at all processes.
func recentUplink() (string, error) {
	last := &uplinks
	last.Lock()
	defer last.Unlock()
	here, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil || here != last.namespace || time.Since(last.at) > time.Second {
		last.found, last.err = anUplink()
		last.namespace, last.at = here, time.Now()
	}
	return last.found, last.err
}

// anUplink returns a device of another network namespace by which packets leave that no device of
// this one sends, as "eth1 of the network namespace net:[4026532001]"; "" for none. The initial
// namespace is left out: a Weir in a namespace of its own does not limit it. Namespaces that this
// process may not enter are left out too: without the right to enter them, Weir only plans.
func anUplink() (found string, err error) {
	skip := map[uint64]bool{}
	for _, path := range []string{"/proc/thread-self/ns/net", "/proc/1/ns/net"} {
		if ns, err := netns.OpenPath(path); err == nil {
			inode, _ := ns.Inode()
			skip[inode] = true
			_ = ns.Close()
		}
	}
	err = namespaces(func(ns *netns.Namespace) error {
		inode, err := ns.Inode()
		if err != nil || skip[inode] || found != "" {
			return err
		}
		links, err := rtnl.Open(ns)
		if errors.Is(err, os.ErrPermission) {
			return nil
		}
		if err != nil {
			return err
		}
		defer links.Close()
		devices, err := links.Devices()
		if dev := shape.Uplink(devices); dev != "" {
			found = dev + fmt.Sprintf(" of the network namespace net:[%d]", inode)
		}
		return err
	})
	return found, err
}
