// SPDX-License-Identifier: Apache-2.0

// Package napi finds and schedules the kernel threads of a device's NAPI instances, and reads their
// CPU time.
//
// A device has such threads while its attribute "threaded" is 1 (Linux 5.12; see [Thread]). The
// netdev family of generic netlink (Linux 6.8) maps threads to devices; thread names are ambiguous
// across namespaces. A veth device has a NAPI instance only with GRO or an XDP program.
package napi

import (
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"weir/internal/fault"
	"weir/kernel/netns"
	"weir/kernel/rtnl"
	"weir/kernel/sysfs"
)

// From include/uapi/linux/netdev.h.
const (
	family       = "netdev"
	commandGet   = 11 // NETDEV_CMD_NAPI_GET
	attributeIf  = 1  // NETDEV_A_NAPI_IFINDEX
	attributePID = 4  // NETDEV_A_NAPI_PID
)

// Thread switches a device to threaded NAPI and returns the thread ids. It returns an error if the
// device has no NAPI instance or the kernel does not report the threads.
func Thread(ns *netns.Namespace, device string) (threads []int, err error) {
	if err := sysfs.Set(ns, sysfs.Attribute{Device: device, Name: "threaded", Value: "1"}); err != nil {
		return nil, err
	}
	if threads, err = Threads(ns, device); err != nil {
		return nil, err
	}
	if len(threads) == 0 {
		return nil, fault.New(fault.Testbed, "switch GRO on: a veth device has a receiving thread only with GRO", "device %s has no thread that receives", device)
	}
	return threads, nil
}

// Threads returns the ids of the device's NAPI threads, and none if it is not threaded.
func Threads(ns *netns.Namespace, device string) (threads []int, err error) {
	conn, err := rtnl.Open(ns)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	found, err := conn.Device(device)
	if err != nil {
		return nil, err
	}
	err = ns.Do(func() (err error) {
		threads, err = threadsOf(uint32(found.Index))
		return err
	})
	if err != nil {
		return nil, fault.Wrap(fmt.Errorf("find receiving threads of %s: %w", device, err), fault.Testbed, "use Linux 6.8 or later")
	}
	return threads, nil
}

func threadsOf(index uint32) (threads []int, err error) {
	found, err := netlink.GenlFamilyGet(family)
	if err != nil {
		return nil, err
	}
	request := nl.NewNetlinkRequest(int(found.ID), unix.NLM_F_DUMP)
	// nl.Genlmsg leaves two bytes undefined that the family requires to be zero.
	request.AddRawData([]byte{commandGet, 1, 0, 0})
	request.AddRawData(nl.NewRtAttr(attributeIf, nl.Uint32Attr(index)).Serialize())
	messages, err := request.Execute(unix.NETLINK_GENERIC, 0)
	if err != nil {
		return nil, err
	}
	for _, message := range messages {
		if len(message) < nl.SizeofGenlmsg {
			continue
		}
		attributes, err := nl.ParseRouteAttr(message[nl.SizeofGenlmsg:])
		if err != nil {
			return nil, err
		}
		for _, a := range attributes {
			if a.Attr.Type&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER) == attributePID && len(a.Value) == 4 {
				threads = append(threads, int(binary.NativeEndian.Uint32(a.Value)))
			}
		}
	}
	return threads, nil
}

// Schedule pins a thread to one CPU with SCHED_FIFO and a priority of 1 to 99.
func Schedule(thread, cpu int, priority uint32) error {
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(thread, &set); err != nil {
		return fmt.Errorf("keep thread %d on CPU %d: %w", thread, cpu, err)
	}
	attr := &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: priority}
	if err := unix.SchedSetAttr(thread, attr, 0); err != nil {
		return fmt.Errorf("run thread %d in real time: %w", thread, err)
	}
	return nil
}

// Times holds the run time of a thread and its wait time on the run queue (/proc/PID/schedstat).
// Time stolen by a hypervisor is in neither.
type Times struct {
	Ran, Waited time.Duration
}

// TimesOf returns the times of a thread. Without CONFIG_SCHED_INFO the error is os.ErrNotExist.
func TimesOf(thread int) (Times, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(thread) + "/schedstat")
	if err != nil {
		return Times{}, fmt.Errorf("read times of thread %d: %w", thread, err)
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return Times{}, fmt.Errorf("read times of thread %d: %q", thread, text)
	}
	ran, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		return Times{}, fmt.Errorf("read times of thread %d: %w", thread, err)
	}
	waited, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return Times{}, fmt.Errorf("read times of thread %d: %w", thread, err)
	}
	return Times{Ran: time.Duration(ran), Waited: time.Duration(waited)}, nil
}
