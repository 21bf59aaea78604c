// SPDX-License-Identifier: Apache-2.0

package xdp

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"weir/internal/fault"
	"weir/kernel/netns"
	"weir/modules/offload/pins"
	"weir/modules/offload/plan"
)

// Names of pins.
const (
	portPin  = "port-"
	tablePin = "table-"
)

// Installed is the result of an install.
type Installed struct {
	*Table
	Generic []int // ports without XDP in the driver, with the slower generic mode
}

// Install creates the table of a plan and activates it in place of the table pinned in the folder,
// without losing a frame. The table outlives the process until its lease ends.
func Install(ns *netns.Namespace, folder string, p *plan.Planner, lease time.Duration) (in *Installed, err error) {
	unlock, err := pins.Lock(folder)
	if err != nil {
		return nil, err
	}
	defer unlock()
	t, err := New(ns, p)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			t.Close()
		}
	}()
	if err := t.Renew(lease); err != nil {
		return nil, err
	}
	name := tablePin + strconv.FormatInt(time.Now().UnixNano(), 36)
	if err := t.pin(filepath.Join(folder, name)); err != nil {
		return nil, err
	}
	before, err := pins.List(folder, tablePin)
	if err != nil {
		return nil, fmt.Errorf("pin the fast path: %w", err)
	}
	in = &Installed{Table: t}
	wanted := map[string]bool{name: true}
	for _, index := range p.Ports() {
		driver, err := t.take(folder, index)
		if err != nil {
			return nil, err
		}
		if !driver {
			in.Generic = append(in.Generic, index)
		}
		wanted[portPin+strconv.Itoa(index)] = true
	}
	if err := t.inherit(folder, before); err != nil {
		return nil, err
	}
	return in, remove(folder, func(name string) bool { return wanted[name] })
}

// take attaches the program to a port, in place of an earlier one of Weir.
func (t *Table) take(folder string, index int) (driver bool, err error) {
	path := filepath.Join(folder, portPin+strconv.Itoa(index))
	before, err := link.LoadPinnedLink(path, nil)
	if err == nil {
		defer func() { _ = before.Close() }()
		info, err := before.Info()
		if err == nil && info.XDP() != nil && int(info.XDP().Ifindex) == index {
			_, driver, err = t.Attach(index, before)
			return driver, err
		}
		_ = os.Remove(path) // the device is deleted
	}
	attached, driver, err := t.Attach(index, nil)
	if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EEXIST) {
		return false, fault.Wrap(err, fault.Usage, "end the XDP program that is there: ip link set DEV xdp off; bpftool net shows it")
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = attached.Close() }()
	if err := attached.Pin(path); err != nil {
		return false, fmt.Errorf("pin the fast path: %w", err)
	}
	return driver, nil
}

// maps returns the pinned maps by the names of their pins.
func (t *Table) maps() map[string]*ebpf.Map {
	all := map[string]*ebpf.Map{"blocks": t.objects.FastBlocks, "inputs": t.objects.FastInputs, "nexts": t.objects.FastNexts, "hops": t.objects.FastHops,
		"lease": t.objects.FastLease, "forwarded": t.objects.FastForwarded, "left": t.objects.FastLeft, "ports": t.objects.FastPorts}
	maps.Copy(all, t.Samples().By())
	return all
}

func (t *Table) pin(folder string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("pin the fast path's table: %w", err)
	}
	for name, m := range t.maps() {
		if err := m.Pin(filepath.Join(folder, name)); err != nil {
			return fmt.Errorf("pin the fast path's table: %w", err)
		}
	}
	t.folder = folder
	return nil
}

// InForce reports whether the table is still pinned: another process may have replaced it.
func (t *Table) InForce() bool {
	_, err := os.Stat(t.folder)
	return err == nil
}

// remove deletes pins except those to keep, links first.
func remove(folder string, keep func(string) bool) error {
	names, err := pins.List(folder, portPin, tablePin) // sorted: ports before tables
	if err != nil {
		return fmt.Errorf("end the fast path: %w", err)
	}
	return pins.Remove(folder, slices.DeleteFunc(names, keep)...)
}

// Remove deletes the pins in a folder, and with them the fast path. released reports whether there
// were any.
func Remove(folder string) (released bool, err error) {
	if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	unlock, err := pins.Lock(folder)
	if err != nil {
		return false, err
	}
	defer unlock()
	names, err := pins.List(folder, portPin, tablePin)
	if err != nil {
		return false, err
	}
	if err := remove(folder, func(string) bool { return false }); err != nil {
		return true, err
	}
	return len(names) > 0, pins.End(folder)
}
