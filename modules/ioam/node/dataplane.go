// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/rlimit"

	"weir/core/match"
	"weir/internal/fault"
	"weir/kernel/bpferr"
	"weir/kernel/bpffs"
	"weir/kernel/device"
	"weir/kernel/netns"
)

// attachName names the programs at devices. attachOrder is close to the wire: modules with a higher
// order see packets before options are inserted, and after options are removed.
const (
	attachName               = "ioam"
	attachOrder device.Order = -100
)

const varReads = ioamVarIoamReads

// dataPlane holds the maps and programs of the node, for one network namespace.
type dataPlane struct {
	objects ioamObjects
	ns      *netns.Namespace // nil: the thread's
	pins    string           // "": for the life of the process
}

// load loads the programs with maps of the given sizes. Programs pass all packets until the
// settings are written.
func load(ns *netns.Namespace, pins string, s sizes) (*dataPlane, error) {
	return loadWith(ns, pins, s, nil)
}

// spec returns the objects to load for a policy.
func (d *dataPlane) spec(s sizes) (*ebpf.CollectionSpec, error) {
	spec, err := loadIoam()
	if err != nil {
		return nil, fmt.Errorf("read IOAM programs: %w", err)
	}
	s.set(spec)
	return spec, d.ns.Do(func() error { return match.Prepare(spec, ebpf.SchedCLS, s.scopes) })
}

// loadWith reuses maps of another data plane, by name.
func loadWith(ns *netns.Namespace, pins string, s sizes, shared map[string]*ebpf.Map) (*dataPlane, error) {
	d := &dataPlane{ns: ns, pins: pins}
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, programNeeds.Fault("lift memory lock limit", err)
	}
	spec, err := d.spec(s)
	if err != nil {
		return nil, err
	}
	for name, m := range shared {
		spec.Maps[name].MaxEntries = m.MaxEntries()
	}
	if match.Reads(ebpf.SchedCLS) == nil {
		if err := spec.Variables[varReads].Set(uint32(1)); err != nil {
			return nil, fmt.Errorf("let IOAM programs read queues: %w", err)
		}
	}
	if err := spec.LoadAndAssign(&d.objects, &ebpf.CollectionOptions{MapReplacements: shared, Programs: ebpf.ProgramOptions{KernelTypes: kernelTypes()}}); err != nil {
		return nil, programNeeds.Fault("load IOAM programs", err)
	}
	return d, nil
}

// kernelTypes reads the kernel's types from the file, because user-mode Linux maps zeros. nil
// leaves the search to the library.
func kernelTypes() *btf.Spec {
	types, err := btf.LoadSpec("/sys/kernel/btf/vmlinux")
	if err != nil {
		return nil
	}
	return types
}

// programNeeds lists the requirements of the programs.
var programNeeds = bpferr.Needs{Capabilities: bpferr.Standard, Kernel: "Linux 6.1 or later with CONFIG_DEBUG_INFO_BTF"}

func (d *dataPlane) close() error {
	return d.objects.Close()
}

// attach attaches the programs to a device, bare if it has no link-layer header, with pins in a
// folder. It renews existing ones.
func (d *dataPlane) attach(dev string, bare bool, pins string) error {
	all, err := d.programsAt(dev, bare, device.Options{Pins: pins})
	for _, a := range all {
		err = errors.Join(err, a.Close()) // an open link would outlive its pin
	}
	return err
}

// programsAt attaches the programs at both hooks of a device.
func (d *dataPlane) programsAt(dev string, bare bool, options device.Options) (all []*device.Attachment, err error) {
	in, out := d.objects.IoamIngress, d.objects.IoamEgress
	if bare {
		in, out = d.objects.IoamIngressBare, d.objects.IoamEgressBare
	}
	for hook, program := range map[device.Hook]*ebpf.Program{device.Ingress: in, device.Egress: out} {
		a, err := device.Attach(d.ns, dev, hook, attachOrder, attachName, program, options)
		if err != nil {
			return all, err
		}
		all = append(all, a)
	}
	return all, nil
}

// detach removes the programs from a device, if it exists.
func detach(ns *netns.Namespace, dev, pins string) error {
	found, err := device.Attached(ns, dev, attachName, pins)
	if err != nil {
		return err
	}
	for _, a := range found {
		if err := a.Detach(); err != nil {
			return err
		}
	}
	return nil
}

// programPins returns the programs by the names of their pins.
func (d *dataPlane) programPins() map[string]**ebpf.Program {
	return map[string]**ebpf.Program{"ingress": &d.objects.IoamIngress, "egress": &d.objects.IoamEgress,
		"ingress_bare": &d.objects.IoamIngressBare, "egress_bare": &d.objects.IoamEgressBare}
}

const lastPin = "complete"

func mapPin(name string) string { return strings.TrimPrefix(name, "ioam_") }

// pin pins maps and programs.
func (d *dataPlane) pin() error {
	if err := os.MkdirAll(d.pins, 0o700); err != nil {
		return pinFault(fmt.Errorf("pin IOAM: %w", err))
	}
	for name, m := range match.Fields(&d.objects.ioamMaps) {
		if err := (*m).Pin(filepath.Join(d.pins, mapPin(name))); err != nil {
			return pinFault(fmt.Errorf("pin map %s: %w", name, err))
		}
	}
	for name, p := range d.programPins() {
		if err := (*p).Pin(filepath.Join(d.pins, name)); err != nil {
			return pinFault(fmt.Errorf("pin program %s: %w", name, err))
		}
	}
	if err := os.Mkdir(filepath.Join(d.pins, lastPin), 0o700); err != nil {
		return pinFault(fmt.Errorf("pin IOAM: %w", err))
	}
	return nil
}

func pinFault(err error) error {
	if errors.Is(err, os.ErrPermission) {
		return fault.Wrap(err, fault.Permission, "run it as root")
	}
	return fault.Wrap(err, fault.Failed, "mount a BPF file system: mount -t bpf -o mode=700 bpf /sys/fs/bpf")
}

// layouts returns the layouts of the maps.
var layouts = bpffs.Layouts(loadIoam)

// open opens pinned maps and programs. It returns fs.ErrNotExist without pins, and for pins of
// another layout.
func open(ns *netns.Namespace, pins string) (d *dataPlane, err error) {
	if _, err := os.Stat(filepath.Join(pins, lastPin)); err != nil {
		return nil, err
	}
	layouts, err := layouts()
	if err != nil {
		return nil, fmt.Errorf("read IOAM programs: %w", err)
	}
	d = &dataPlane{ns: ns, pins: pins}
	defer func() {
		if err != nil {
			_ = d.close()
			d = nil
		}
	}()
	for name, m := range match.Fields(&d.objects.ioamMaps) {
		if *m, err = ebpf.LoadPinnedMap(filepath.Join(pins, mapPin(name)), nil); err != nil {
			return d, err
		}
		if !layouts[name].Of(*m) {
			return d, fs.ErrNotExist
		}
	}
	for name, p := range d.programPins() {
		if *p, err = ebpf.LoadPinnedProgram(filepath.Join(pins, name), nil); err != nil {
			return d, err
		}
	}
	return d, nil
}

// unpin removes the pins of maps and programs, which must be detached.
func unpin(pins string) error {
	var all []error
	for _, pattern := range []string{lastPin, "links/*", "links", "*"} {
		paths, err := filepath.Glob(filepath.Join(pins, pattern))
		all = append(all, err)
		for _, path := range paths {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				all = append(all, err)
			}
		}
	}
	if err := os.Remove(pins); err != nil && !errors.Is(err, fs.ErrNotExist) {
		all = append(all, err)
	}
	return errors.Join(all...)
}
