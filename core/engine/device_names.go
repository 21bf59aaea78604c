// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"

	"weir/core/policy"
	"weir/core/selector"
	"weir/kernel/rtnl"
)

// deviceID identifies a device while it exists: an index may be used again.
type deviceID struct {
	Index int    `json:"index"`
	MAC   string `json:"mac,omitempty"`
}

func idOf(d rtnl.Device) deviceID { return deviceID{d.Index, d.MAC.String()} }

// deviceNames resolves the names of devices in a policy.
type deviceNames struct {
	ids map[string]deviceID // by name in the policy
	now map[string]string   // the kernel's name by name in the policy, if they differ
}

// resolve returns the kernel's name of a device.
func (n deviceNames) resolve(name string) string {
	if now, other := n.now[name]; other {
		return now
	}
	return name
}

// namesIn lists the devices that a policy names.
func namesIn(scopes []policy.Scope, host []policy.Item) (names []string) {
	for _, s := range scopes {
		if s.Selector.Kind == selector.Interface {
			names = append(names, s.Selector.Text)
		}
	}
	for _, item := range host {
		if namer, is := item.Treatment.(policy.DeviceNamer); is {
			names = append(names, namer.DeviceNames()...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// lookUpDevices resolves names among the devices of this network namespace. If a device
// was renamed since the lookup that returned before, its former name still resolves to it, unless
// another device has that name.
func lookUpDevices(names []string, before map[string]deviceID) (deviceNames, error) {
	found := deviceNames{map[string]deviceID{}, map[string]string{}}
	if len(names) == 0 {
		return found, nil
	}
	conn, err := rtnl.Open(nil)
	if err != nil {
		return found, err
	}
	defer conn.Close()
	devices, err := conn.Devices()
	if err != nil {
		return found, err
	}
	byID := map[deviceID]rtnl.Device{}
	for _, d := range devices {
		byID[idOf(d)] = d
	}
	for _, name := range names {
		d, there := rtnl.Named(devices, name)
		if !there {
			d, there = byID[before[name]]
		}
		if !there {
			continue
		}
		found.ids[name] = idOf(d)
		if d.Name != name {
			found.now[name] = d.Name
		}
	}
	return found, nil
}
