// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"cmp"
	"fmt"
)

// Since says whether the running kernel calls itself that version or a later one. It is for what
// cannot be tried: a feature that was brought to an older kernel is not seen.
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
