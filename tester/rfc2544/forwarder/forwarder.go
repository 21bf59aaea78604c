// SPDX-License-Identifier: Apache-2.0

// Package forwarder turns the kernel's own forwarding between two devices of this machine into a
// device under test that can be measured on a shared machine: one thread on one CPU forwards, at
// higher priority than all other programs.
//
// Otherwise a frame is forwarded on the CPU that sent it: a generator that shares its CPU with the
// device throttles itself, and never loses a frame. A thread without real-time priority waits some
// milliseconds for other programs, but the receive ring of a veth device holds only 256 frames, so
// the losses would measure the load of the machine.
//
// Pitfalls: frames that the device sends over a veth pair are received in the same thread, so an
// analyzer at the far end is part of the measurement. If other programs wait for the CPU of a
// thread that never sleeps, the kernel stops the thread for 5 % of each second
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

// Forwarder is a prepared device under test. It implements rfc2544.Device. Close must be called for
// a borrowed device; threads and settings of a device made for the benchmark end with it.
type Forwarder struct {
	ns       *netns.Namespace
	in, out  string
	cpu      int
	threads  []int
	restorer *child.Process // of a borrowed device
}

// Prepare sets up a namespace that forwards from the veth device in to the veth device out: GRO at
// in, so that it has a queue of its own and no frame is handled by the generator; a thread for it
// on the CPU cpu; real-time priority.
//
// GRO does not merge frames of different or of one UDP stream, unless the namespace forwards UDP in
// groups (rx-udp-gro-forwarding, off by default): every frame is routed by itself.
func Prepare(ns *netns.Namespace, in, out string, cpu int) (*Forwarder, error) {
	if cpu >= runtime.NumCPU() {
		return nil, fault.New(fault.Testbed, "use a machine with a CPU for the generator and one for the device", "there is no CPU %d for the device under test", cpu)
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

// Read returns the counters of the device so far.
func (f *Forwarder) Read() (rfc2544.DeviceReading, error) {
	reading := rfc2544.DeviceReading{Ring: vethRing}
	for _, thread := range f.threads {
		times, err := napi.TimesOf(thread)
		if errors.Is(err, fs.ErrNotExist) {
			continue // kernel without such times: a long wait of a frame still shows an interruption
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

// String describes the device's setup, for a report.
func (f *Forwarder) String() string {
	return fmt.Sprintf("kernel forwarding from %s to %s in %d thread(s) on CPU %d, SCHED_FIFO %d", f.in, f.out, len(f.threads), f.cpu, priority)
}
