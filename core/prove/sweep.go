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

// Sweep removes the remains of killed runs: namespaces with their devices, addresses and routes,
// routes over other devices, and cgroups below root. Objects of living processes stay.
func Sweep(root string) error {
	_, err := instance.Sweep()
	return errors.Join(err, sweepDetours(), sweepCgroups(root))
}

// sweepCgroups removes cgroups named after dead processes and kills the processes in them: frozen
// processes outlive their parent.
func sweepCgroups(root string) error {
	var stale []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // it was removed meanwhile
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
