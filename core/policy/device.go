// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"strings"

	"weir/internal/yamlfile"
)

// DeviceNamer is a Treatment that names devices of this network namespace.
type DeviceNamer interface {
	DeviceNames() []string
	// WithDeviceNames returns a copy with the kernel's names: the policy may use alternative names,
	// and a device may have been renamed since the last apply.
	WithDeviceNames(now func(name string) string) Treatment
}

// IsDevice reports whether a name is valid for a network device (dev_valid_name in Linux), or as an
// alternative name.
func IsDevice(name string) bool {
	const maxLength = 127 // ALTIFNAMSIZ - 1
	return name != "" && len(name) <= maxLength && name != "." && name != ".." && !strings.ContainsAny(name, "/: \t\n\v\f\r")
}

// Device reports whether a name below a key is valid for a device, and complains if not.
func (d *Draft) Device(name yamlfile.Text, key string) bool {
	if !IsDevice(name.Value) {
		d.ComplainAt(name.Place, "write a name as ip link shows it, without the part after @", "%s: %q is not a device name", key, name.Value)
		return false
	}
	return true
}
