// SPDX-License-Identifier: Apache-2.0

package class

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"weir/internal/kernel/device"
	"weir/internal/kernel/netns"
	"weir/internal/kernel/rtnl"
)

// order is the marking program's place at a device: far from the wire, so that all that follow it
// see the class.
const order device.Order = 900

// devices are those of a network namespace at which packets are marked: all but loopback. nil is
// the calling thread's.
func devices(ns *netns.Namespace) (names []string, err error) {
	links, err := rtnl.Open(ns)
	if err != nil {
		return nil, err
	}
	defer links.Close()
	all, err := links.Devices()
	for _, d := range all {
		if d.Name != "lo" {
			names = append(names, d.Name)
		}
	}
	return names, err
}

// missing are the devices at which the program is not attached.
func missing(ns *netns.Namespace, pins string) (names []string, err error) {
	all, err := devices(ns)
	if err != nil {
		return nil, err
	}
	for _, name := range all {
		found, err := device.Attached(ns, name, roomName, pins)
		if errors.Is(err, device.ErrGone) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			names = append(names, name)
		}
		for _, a := range found {
			_ = a.Close()
		}
	}
	return names, nil
}

// attach puts the program at every device of a namespace that lacks it.
func (m *marker) attach(ns *netns.Namespace, pins string) error {
	names, err := missing(ns, pins)
	if err != nil {
		return err
	}
	for _, name := range names {
		a, err := device.Attach(ns, name, device.Egress, order, roomName, m.program, device.Options{Pins: pins})
		if errors.Is(err, device.ErrGone) {
			continue
		}
		if err != nil {
			return refused("mark at device "+name, err)
		}
		_ = a.Close()
	}
	return device.Prune(pins)
}

// renew puts this program in the place of another of Weir's at every device of a namespace, and
// where there is none.
func (m *marker) renew(ns *netns.Namespace, pins string) error {
	info, err := m.program.Info()
	if err != nil {
		return fmt.Errorf("read marking program: %w", err)
	}
	id, _ := info.ID()
	err = visit(ns, pins, func(a *device.Attachment) error {
		defer func() { _ = a.Close() }()
		if a.Program == id {
			return nil
		}
		if err := a.Replace(m.program); !errors.Is(err, unix.ENOLINK) && !errors.Is(err, unix.ENODEV) {
			return err
		}
		return nil // the device has gone
	})
	if err != nil {
		return refused("mark", err)
	}
	return m.attach(ns, pins)
}

// visit calls a function for each place of the program at the devices of a namespace.
func visit(ns *netns.Namespace, pins string, each func(*device.Attachment) error) error {
	all, err := devices(ns)
	if err != nil {
		return err
	}
	for _, name := range all {
		found, err := device.Attached(ns, name, roomName, pins)
		if errors.Is(err, device.ErrGone) {
			continue
		}
		if err != nil {
			return err
		}
		for _, a := range found {
			if err := each(a); err != nil {
				return err
			}
		}
	}
	return nil
}

// detach takes the program from all devices of a namespace.
func detach(ns *netns.Namespace, pins string) error {
	return visit(ns, pins, (*device.Attachment).Detach)
}
