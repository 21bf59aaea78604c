// SPDX-License-Identifier: Apache-2.0

package class

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weir/kernel/device"
	"weir/kernel/netns"
	"weir/kernel/rtnl"
)

// order is the marking program's order at a device: far from the wire, so that later programs read
// the new DSCP.
const order device.Order = 900

// devices returns the devices of a network namespace at which packets are marked: all except
// loopback and ifbs. Packets at an ifb were received, or leave by another device. nil is the
// namespace of the calling thread.
func devices(ns *netns.Namespace) ([]rtnl.Device, error) {
	links, err := rtnl.Open(ns)
	if err != nil {
		return nil, err
	}
	defer links.Close()
	all, err := links.Devices()
	return slices.DeleteFunc(all, func(d rtnl.Device) bool { return d.Name == "lo" || d.Kind == "ifb" }), err
}

// place is a program and its hook.
type place struct {
	hook    device.Hook
	program *ebpf.Program
}

// places returns the programs with their hooks: ingress only with as-asked scopes.
func (m *marker) places(settings markClassSettings) []place {
	all := []place{{device.Egress, m.program}}
	if settings.Asked != 0 {
		all = append(all, place{device.Ingress, m.ask})
	}
	return all
}

// missing returns the devices without the program at a hook.
func missing(ns *netns.Namespace, hook device.Hook, pins string) (names []string, err error) {
	all, err := devices(ns)
	if err != nil {
		return nil, err
	}
	for _, d := range all {
		hooks, err := device.Hooks(ns, d.Name, moduleName, pins)
		if errors.Is(err, device.ErrGone) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if !hooks[hook] {
			names = append(names, d.Name)
		}
	}
	return names, nil
}

// attach attaches the programs to every device of a namespace that lacks them.
func (m *marker) attach(ns *netns.Namespace, pins string) error {
	settings, err := m.settings()
	if err != nil {
		return err
	}
	for _, at := range m.places(settings) {
		if err := at.attach(ns, pins); err != nil {
			return err
		}
	}
	return device.Prune(pins)
}

func (p place) attach(ns *netns.Namespace, pins string) error {
	names, err := missing(ns, p.hook, pins)
	if err != nil {
		return err
	}
	for _, name := range names {
		a, err := device.Attach(ns, name, p.hook, order, moduleName, p.program, device.Options{Pins: pins})
		if errors.Is(err, device.ErrGone) {
			continue
		}
		if err != nil {
			return programNeeds.Fault("mark at device "+name, err)
		}
		_ = a.Close()
	}
	return nil
}

// renew replaces older programs of Weir at every device of a namespace, attaches missing ones, and
// detaches obsolete ones.
func (m *marker) renew(ns *netns.Namespace, pins string) error {
	settings, err := m.settings()
	if err != nil {
		return err
	}
	places := m.places(settings)
	err = visit(ns, pins, func(a *device.Attachment) error {
		i := slices.IndexFunc(places, func(p place) bool { return p.hook == a.Hook })
		if i < 0 {
			return a.Detach()
		}
		defer func() { _ = a.Close() }()
		return places[i].renew(a)
	})
	if err != nil {
		return programNeeds.Fault("mark", err)
	}
	return m.attach(ns, pins)
}

// renew replaces the program, unless its device is gone.
func (p place) renew(a *device.Attachment) error {
	info, err := p.program.Info()
	if err != nil {
		return fmt.Errorf("read marking program: %w", err)
	}
	if id, _ := info.ID(); a.Program == id {
		return nil
	}
	if err := a.Replace(p.program); !errors.Is(err, unix.ENOLINK) && !errors.Is(err, unix.ENODEV) {
		return err
	}
	return nil
}

// visit calls a function for each attachment of the program in a namespace.
func visit(ns *netns.Namespace, pins string, each func(*device.Attachment) error) error {
	all, err := devices(ns)
	if err != nil {
		return err
	}
	for _, d := range all {
		found, err := device.Attached(ns, d.Name, moduleName, pins)
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

// detach detaches the program from all devices of a namespace.
func detach(ns *netns.Namespace, pins string) error {
	return visit(ns, pins, (*device.Attachment).Detach)
}
