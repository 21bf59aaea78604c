// SPDX-License-Identifier: Apache-2.0

// Package forwarder makes the kernel's own forwarding between two devices of this machine a device
// under test that can be measured on a machine shared with others: its work is done by one thread,
// on one processor, before all other programs.
//
// Without that the work is done by whichever processor a frame is sent from: a generator that
// shares its processor with the device throttles itself, and never loses a frame. And a thread
// without real-time priority waits some milliseconds for whatever else runs, while the receive ring
// of a veth device holds 256 frames: the losses would say how busy the machine is.
//
// What will bite you: frames that the device sends over a veth pair are received in the same
// thread, so an analyzer at the far end is part of what is measured. A device whose thread never
// sleeps is stopped for 5 % of each second where other programs wait for its processor
// (sched_rt_runtime_us, and the fair server since Linux 6.12).
package forwarder

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"

	"weir/internal/child"
	"weir/internal/fault"
	"weir/kernel/ethtool"
	"weir/kernel/napi"
	"weir/kernel/netns"
	"weir/tester/rfc2544"
)

// priority is above the generator's (session.Realtime) and below that of the kernel's own real-time
// threads (50).
const priority = 30

// vethRing is VETH_RING_SIZE of the kernel's drivers/net/veth.c, in frames.
const vethRing = 256

// Forwarder is a prepared device under test. It implements rfc2544.Device. Close one that was
// borrowed; of one that was made for the benchmark, threads and settings go with the devices.
type Forwarder struct {
	ns      *netns.Namespace
	in, out string
	cpu     int
	threads []int
	keeper  *child.Process // of a borrowed device
}

// Prepare sets up a namespace that forwards from the veth device in to the veth device out: GRO at
// in, so that it has a queue of its own and no frame is handled by the generator; a thread for it
// on the processor cpu; real-time priority.
//
// GRO leaves frames of different UDP streams and of one UDP stream alone, unless the namespace
// forwards UDP in groups (rx-udp-gro-forwarding, off by default): every frame is routed by itself.
func Prepare(ns *netns.Namespace, in, out string, cpu int) (*Forwarder, error) {
	if cpu >= runtime.NumCPU() {
		return nil, fault.New(fault.Testbed, "use a machine with a processor for the generator and one for the device", "there is no processor %d for the device under test", cpu)
	}
	if err := ethtool.SetFeatures(ns, in, map[string]bool{"gro": true}); err != nil {
		return nil, fmt.Errorf("prepare device under test: %w", err)
	}
	threads, err := napi.Thread(ns, in)
	if err != nil {
		return nil, fmt.Errorf("prepare device under test: %w", err)
	}
	for _, thread := range threads {
		if err := napi.Schedule(thread, cpu, priority); err != nil {
			return nil, fault.Wrap(fmt.Errorf("prepare device under test: %w", err), fault.Permission, "run it as root outside of containers that forbid real-time scheduling")
		}
	}
	return &Forwarder{ns: ns, in: in, out: out, cpu: cpu, threads: threads}, nil
}

// Read is what the device has done so far.
func (f *Forwarder) Read() (rfc2544.DeviceReading, error) {
	reading := rfc2544.DeviceReading{Ring: vethRing}
	for _, thread := range f.threads {
		times, err := napi.TimesOf(thread)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a kernel without such times: that a frame waited long still shows an interruption
		}
		if err != nil {
			return reading, err
		}
		reading.Ran += times.Ran
		reading.Waited += times.Waited
	}
	dropped, err := transmitDrops(f.ns, f.out)
	if err != nil {
		return reading, err
	}
	reading.Dropped = dropped
	return reading, nil
}

// String says how the device is set up, for a report.
func (f *Forwarder) String() string {
	return fmt.Sprintf("kernel forwarding from %s to %s in %d thread(s) on processor %d, SCHED_FIFO %d", f.in, f.out, len(f.threads), f.cpu, priority)
}
