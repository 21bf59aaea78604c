// SPDX-License-Identifier: Apache-2.0

package links

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/cilium/ebpf"

	"weir/kernel/bpffs"
	"weir/kernel/device"
	"weir/kernel/rtnl"
)

const formerPrefix = "former-"

// formers is the store of the links' former qdisc trees.
func (p *hostPlane) formers() device.Store[device.Record] {
	return device.Store[device.Record]{Dir: p.host.Files, Prefix: formerPrefix}
}

func formerKey(r device.Record) string { return fmt.Sprintf("%d-%d", r.Namespace, r.Index) }

// find returns the record of a device; false without one, or for another device of the same name.
func find(all []device.Record, d rtnl.Device) (device.Record, bool) {
	for _, f := range all {
		if f.Index == d.Index && f.Here() {
			return f, true
		}
	}
	return device.Record{}, false
}

// had reports whether a device name has a record, even if the device is gone.
func had(all []device.Record, name string) bool {
	for _, f := range all {
		if f.Device == name {
			return true
		}
	}
	return false
}

// acquire finds the record of a device, or records its tree before anything changes.
func (p *hostPlane) acquire(d rtnl.Device, all []device.Record) (device.Record, error) {
	if f, found := find(all, d); found {
		return f, nil
	}
	f, err := device.Take(nil, d.Name, moduleName, p.host.Pins)
	if err != nil {
		return f, err
	}
	return f, p.formers().Put(formerKey(f), f)
}

// restore restores a former tree in the network namespace where it was.
func (p *hostPlane) restore(f device.Record) error {
	if err := f.Return(p.host.Namespaces); err != nil {
		return fmt.Errorf("links.%s: %w", f.Device, err)
	}
	return nil
}

// adopt moves the records of earlier versions of Weir, which pinned each in a map, to the store.
func (p *hostPlane) adopt() error {
	pins, err := filepath.Glob(filepath.Join(p.host.Pins, formerPrefix+"*"))
	if err != nil {
		return fmt.Errorf("find records: %w", err)
	}
	for _, pin := range pins {
		f, err := readPinned(pin)
		if err == nil {
			err = p.formers().Put(formerKey(f), f)
		}
		if err == nil {
			err = bpffs.Remove(pin)
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", pin, err)
		}
	}
	return nil
}

func readPinned(pin string) (f device.Record, err error) {
	m, err := ebpf.LoadPinnedMap(pin, &ebpf.LoadPinOptions{ReadOnly: true})
	if err != nil {
		return f, err
	}
	defer func() { _ = m.Close() }()
	value, err := m.LookupBytes(uint32(0))
	if err != nil {
		return f, err
	}
	return f, json.Unmarshal(bytes.TrimRight(value, "\x00"), &f)
}
