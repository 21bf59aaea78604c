// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"weir/kernel/cgroup"
	"weir/kernel/instance"
)

// Sweep removes what runs that were killed have left: namespaces, and with them all devices,
// addresses and routes, what led to them over other devices, and cgroups below root. It leaves what
// a living process owns.
func Sweep(root string) error {
	_, err := instance.Sweep()
	return errors.Join(err, sweepDetours(), sweepCgroups(root))
}

// sweepCgroups ends cgroups named after processes that are gone, with what runs in them: frozen
// processes outlive their parent.
func sweepCgroups(root string) error {
	var stale []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // it went away while it was looked at
			}
			return err
		}
		if owner, ours := strings.CutPrefix(entry.Name(), cgroupPrefix); ours && entry.IsDir() {
			if pid, err := strconv.Atoi(owner); err == nil && gone(pid) {
				stale = append(stale, path)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("look for stale cgroups: %w", err)
	}
	var all []error
	for _, path := range stale {
		all = append(all, removeCgroup(cgroup.Cgroup{Path: path}))
	}
	return errors.Join(all...)
}
