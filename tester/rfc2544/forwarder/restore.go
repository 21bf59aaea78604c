// SPDX-License-Identifier: Apache-2.0

package forwarder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/child"
	"weir/kernel/ethtool"
	"weir/kernel/napi"
	"weir/kernel/netns"
	"weir/kernel/sysfs"
)

// RestorePart is the name under which main and TestMain register [Restore] with child.Main.
const RestorePart = "forwarder-restore"

// before is the former state of a device.
type before struct {
	Device   string
	GRO      bool
	Threaded bool
	Threads  map[int]*unix.SchedAttr // of a threaded device
	CPUs     map[int]unix.CPUSet
}

// Borrow is Prepare for devices that stay after the benchmark. Close restores their former state;
// so does the end of this process, kill -9 included: a helper process waits for it.
func Borrow(ctx context.Context, ns *netns.Namespace, in, out string, cpu int) (*Forwarder, error) {
	state, err := look(ns, in)
	if err != nil {
		return nil, err
	}
	restorer, err := child.StartIn(context.WithoutCancel(ctx), RestorePart, os.Stderr, func(attr *syscall.SysProcAttr) error {
		attr.Pdeathsig = 0 // it must outlive its parent
		return ns.Enter()
	})
	if err != nil {
		return nil, fmt.Errorf("prepare device under test: %w", err)
	}
	if err := json.NewEncoder(restorer.In).Encode(state); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare device under test: %w", err), restorer.Stop(undoTime))
	}
	f, err := Prepare(ns, in, out, cpu)
	if err != nil {
		return nil, errors.Join(err, restorer.Stop(undoTime))
	}
	f.restorer = restorer
	return f, nil
}

// undoTime is the maximum time for the restorer to restore the device.
const undoTime = 10 * time.Second

// Close restores a borrowed device.
func (f *Forwarder) Close() error {
	if f.restorer == nil {
		return nil
	}
	restorer := f.restorer
	f.restorer = nil
	if err := restorer.Stop(undoTime); err != nil {
		return fmt.Errorf("give the device under test back: %w", err)
	}
	return nil
}

// look reads the settings that Prepare will change.
func look(ns *netns.Namespace, device string) (before, error) {
	state := before{Device: device, Threads: map[int]*unix.SchedAttr{}, CPUs: map[int]unix.CPUSet{}}
	features, err := ethtool.Features(ns, device)
	if err != nil {
		return state, err
	}
	threads, err := napi.Threads(ns, device)
	if err != nil {
		return state, err
	}
	state.GRO, state.Threaded = features["gro"], len(threads) > 0
	for _, thread := range threads {
		var cpus unix.CPUSet
		attr, err := unix.SchedGetAttr(thread, 0)
		if err = errors.Join(err, unix.SchedGetaffinity(thread, &cpus)); err != nil {
			return state, fmt.Errorf("read how thread %d is scheduled: %w", thread, err)
		}
		state.Threads[thread], state.CPUs[thread] = attr, cpus
	}
	return state, nil
}

// Restore reads a device's state, waits for the end of its input, and restores the state. It runs
// in the device's namespace.
func Restore(in io.Reader, _ io.Writer) error {
	reader := json.NewDecoder(in)
	var state before
	if err := reader.Decode(&state); err != nil {
		return nil // no change yet
	}
	_, _ = io.Copy(io.Discard, in) // until the holder of the other end closes it, or dies
	ns, err := netns.Current()
	if err != nil {
		return err
	}
	return errors.Join(state.undo(ns), ns.Close())
}

func (b before) undo(ns *netns.Namespace) error {
	threads, err := napi.Threads(ns, b.Device)
	if err != nil {
		return nil // the device is gone, with its threads and settings
	}
	var all []error
	for _, thread := range threads {
		attr, cpus := b.Threads[thread], b.CPUs[thread]
		if attr == nil {
			attr = &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL}
			for cpu := range runtime.NumCPU() {
				cpus.Set(cpu)
			}
		}
		if err := errors.Join(unix.SchedSetAttr(thread, attr, 0), unix.SchedSetaffinity(thread, &cpus)); err != nil && !errors.Is(err, unix.ESRCH) {
			all = append(all, fmt.Errorf("schedule thread %d as before: %w", thread, err))
		}
	}
	if !b.Threaded {
		all = append(all, sysfs.Set(ns, sysfs.Attribute{Device: b.Device, Name: "threaded", Value: "0"}))
	}
	if !b.GRO {
		all = append(all, ethtool.SetFeatures(ns, b.Device, map[string]bool{"gro": false}))
	}
	return errors.Join(all...)
}
