// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"strings"

	"weir/internal/yamlfile"
)

// IsDevice says whether a network device can have the name (Linux's dev_valid_name).
func IsDevice(name string) bool {
	const longest = 15 // IFNAMSIZ, with the 0 behind it, is 16
	return name != "" && len(name) <= longest && name != "." && name != ".." && !strings.ContainsAny(name, "/: \t\n\v\f\r")
}

// Device complains of a name below a key that no device can have, and says whether it was fit.
func (d *Draft) Device(name yamlfile.Text, key string) bool {
	if !IsDevice(name.Value) {
		d.ComplainAt(name.Place, "write a name as ip link shows it, without what is behind @", "%s: %q is no name of a device", key, name.Value)
		return false
	}
	return true
}
