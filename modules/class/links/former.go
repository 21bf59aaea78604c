// SPDX-License-Identifier: Apache-2.0

package links

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/cilium/ebpf"

	"weir/kernel/bpffs"
	"weir/kernel/device"
	"weir/kernel/netns"
)

// What a device had before is kept in a pinned map with one entry: it is there or not, whenever a
// process dies, and goes with a reboot as the devices' trees do.

// former is a kept record.
type former struct {
	device.Record
	pin string
}

const formerPrefix = "former-"

// keep pins a record, before anything changes.
func keep(dir string, r device.Record) (former, error) {
	f := former{r, filepath.Join(dir, fmt.Sprintf("%s%d-%d", formerPrefix, r.Namespace, r.Index))}
	text, err := json.Marshal(r)
	if err != nil {
		return f, fmt.Errorf("write record of %s: %w", r.Device, err)
	}
	spec := &ebpf.MapSpec{Name: "links_former", Type: ebpf.Array, KeySize: 4, ValueSize: uint32(len(text)+7) &^ 7, MaxEntries: 1}
	m, err := ebpf.NewMap(spec)
	if err != nil {
		return f, programNeeds.Fault("make record of "+r.Device, err)
	}
	defer func() { _ = m.Close() }()
	value := make([]byte, spec.ValueSize)
	copy(value, text)
	if err := m.Put(uint32(0), value); err != nil {
		return f, programNeeds.Fault("fill record of "+r.Device, err)
	}
	if err := bpffs.Make(dir); err != nil {
		return f, err
	}
	if err := m.Pin(f.pin); err != nil {
		return f, bpffs.Fault(fmt.Errorf("pin record of %s: %w", r.Device, err))
	}
	return f, nil
}

// kept returns all records, including those of removed devices.
func kept(dir string) (all []former, err error) {
	pins, err := filepath.Glob(filepath.Join(dir, formerPrefix+"*"))
	if err != nil {
		return nil, fmt.Errorf("find records: %w", err)
	}
	for _, pin := range pins {
		f, err := open(pin)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", pin, err)
		}
		all = append(all, f)
	}
	return all, nil
}

func open(pin string) (f former, err error) {
	m, err := ebpf.LoadPinnedMap(pin, &ebpf.LoadPinOptions{ReadOnly: true})
	if err != nil {
		return f, err
	}
	defer func() { _ = m.Close() }()
	value, err := m.LookupBytes(uint32(0))
	if err != nil {
		return f, err
	}
	f.pin = pin
	return f, json.Unmarshal(bytes.TrimRight(value, "\x00"), &f.Record)
}

// restore brings the former tree back, in whichever namespace it was, and forgets it.
func (f former) restore(p *hostPlane) error {
	err := f.Restore(nil)
	if errors.Is(err, device.ErrGone) && p.host.Namespaces != nil {
		found := p.host.Namespaces(func(ns *netns.Namespace) error {
			if !errors.Is(err, device.ErrGone) {
				return nil
			}
			err = f.Restore(ns)
			return nil
		})
		err = errors.Join(err, found)
	}
	if err != nil && !errors.Is(err, device.ErrGone) {
		return err
	}
	return f.forget()
}

func (f former) forget() error {
	return bpffs.Remove(f.pin)
}
