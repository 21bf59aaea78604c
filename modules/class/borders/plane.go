// SPDX-License-Identifier: Apache-2.0

package borders

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weir/core/module"
	"weir/kernel/bpffs"
	"weir/kernel/device"
	"weir/kernel/probe"
	"weir/kernel/rtnl"
)

// order is the programs' place at a device: nothing of Weir's is nearer to the wire, so that all
// the rest sees the DSCPs of this network.
const order device.Order = -200

// hostPlane is the data plane: programs at devices with their own maps.
type hostPlane struct{ host module.Host }

// treatments are by device.
func treatments(s module.State) map[string]*Treatment {
	all := map[string]*Treatment{}
	for _, item := range s.Host {
		if t, ok := item.Treatment.(*Treatment); ok {
			all[t.Device] = t
		}
	}
	return all
}

// devices returns the devices of this network namespace.
func devices() ([]rtnl.Device, error) {
	links, err := rtnl.Open(nil)
	if err != nil {
		return nil, err
	}
	defer links.Close()
	return links.Devices()
}

// attached returns the programs of a device by hook; nil for a missing device.
func (p *hostPlane) attached(dev string) (map[device.Hook]*device.Attachment, error) {
	found, err := device.Attached(nil, dev, moduleName, p.host.Devices)
	if errors.Is(err, device.ErrGone) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("borders.%s: %w", dev, err)
	}
	all := map[device.Hook]*device.Attachment{}
	for _, a := range found {
		all[a.Hook] = a
	}
	return all, nil
}

// Ready rejects borders that this host cannot support.
func (p *hostPlane) Ready(module.State) error {
	return errors.Join(bpffs.CanPin(p.host.Devices), probe.ProgramType(ebpf.SchedCLS))
}

// InPlace reports whether every border at an existing device has its programs; for an empty state,
// whether any device has some.
func (p *hostPlane) InPlace(have module.State) (bool, error) {
	all, err := devices()
	if err != nil {
		return false, err
	}
	borders := treatments(have)
	for _, d := range all {
		t := borders[d.Name]
		if t == nil && !have.Empty() {
			continue
		}
		hooks, err := device.Hooks(nil, d.Name, moduleName, p.host.Devices)
		switch {
		case errors.Is(err, device.ErrGone):
		case err != nil:
			return false, fmt.Errorf("borders.%s: %w", d.Name, err)
		case t == nil && len(hooks) > 0:
			return true, nil
		case t != nil && len(hooks) != len(t.hooks()):
			return false, nil
		}
	}
	return !have.Empty(), nil
}

// Apply atomically replaces the programs of each border and removes obsolete ones.
func (p *hostPlane) Apply(_, want module.State) (notes []string, err error) {
	all, err := devices()
	if err != nil {
		return nil, err
	}
	waits := treatments(want)
	for _, d := range all {
		t := waits[d.Name]
		delete(waits, d.Name)
		if err := p.lead(d, t); err != nil {
			return nil, fmt.Errorf("borders.%s: %w", d.Name, err)
		}
	}
	for _, item := range want.Host {
		if t, ok := item.Treatment.(*Treatment); ok && waits[t.Device] != nil {
			notes = append(notes, fmt.Sprintf("borders.%s: there is no such device: weir daemon, or the next apply, marks it when it is there", t.Device))
		}
	}
	return notes, device.Prune(p.host.Devices)
}

// lead applies the treatment of a device, or removes it for nil.
func (p *hostPlane) lead(d rtnl.Device, t *Treatment) error {
	found, err := p.attached(d.Name)
	if err != nil || t == nil && len(found) == 0 {
		return err
	}
	wanted := map[device.Hook]bool{}
	if t != nil {
		for _, hook := range t.hooks() {
			wanted[hook] = true
		}
		err = p.put(d, t, found)
	}
	for hook, a := range found {
		if err == nil && !wanted[hook] {
			err = a.Detach()
		} else {
			_ = a.Close()
		}
	}
	return err
}

// put attaches the programs of a border. They take over the counters of their predecessors.
func (p *hostPlane) put(d rtnl.Device, t *Treatment, found map[device.Hook]*device.Attachment) error {
	var counters *ebpf.Map
	for _, a := range found {
		m, err := countersOf(a)
		if err != nil {
			return err
		}
		if counters == nil {
			counters = m
		} else if m != nil {
			_ = m.Close()
		}
	}
	if counters != nil {
		defer func() { _ = counters.Close() }()
	}
	objects, err := t.load(d.Header, counters)
	if err != nil {
		return err
	}
	defer func() { _ = objects.Close() }()
	for _, hook := range t.hooks() {
		program := objects.at(hook)
		if a := found[hook]; a != nil {
			err = a.Replace(program)
		} else {
			err = p.attach(d.Name, hook, program)
		}
		if errors.Is(err, device.ErrGone) || errors.Is(err, unix.ENOLINK) || errors.Is(err, unix.ENODEV) {
			return nil
		}
		if err != nil {
			return programNeeds.Fault("attach border's program", err)
		}
	}
	return nil
}

func (p *hostPlane) attach(dev string, hook device.Hook, program *ebpf.Program) error {
	a, err := device.Attach(nil, dev, hook, order, moduleName, program, device.Options{Pins: p.host.Devices})
	if err != nil {
		return err
	}
	return a.Close()
}

// Release takes the programs from all devices.
func (p *hostPlane) Release() (released bool, err error) {
	all, err := devices()
	if err != nil {
		return false, err
	}
	for _, d := range all {
		found, err := p.attached(d.Name)
		for _, a := range found {
			released, err = true, errors.Join(err, a.Detach())
		}
		if err != nil {
			return released, err
		}
	}
	return released, device.Forget(p.host.Devices, moduleName)
}
