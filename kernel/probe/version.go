// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"cmp"
	"fmt"
)

// Since reports whether the running kernel has at least a version. Use it only for features that
// cannot be tried: it misses backports.
func Since(major, minor int) (bool, error) {
	release, err := Release()
	if err != nil {
		return false, err
	}
	return since(release, major, minor)
}

func since(release string, major, minor int) (bool, error) {
	var x, y int
	if _, err := fmt.Sscanf(release, "%d.%d", &x, &y); err != nil {
		return false, fmt.Errorf("read the kernel's version from %q: %w", release, err)
	}
	return cmp.Or(cmp.Compare(x, major), cmp.Compare(y, minor)) >= 0, nil
}
