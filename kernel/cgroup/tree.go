// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Tree lists the cgroup and its descendants, outer ones first. It omits those that disappear
// meanwhile.
func (c Cgroup) Tree() (all []Cgroup, err error) {
	err = filepath.WalkDir(c.Path, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && entry.IsDir() {
			all = append(all, Cgroup{path})
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list cgroups below %s: %w", c.Path, err)
	}
	return all, nil
}

// AllProcesses lists the processes in the cgroup and its descendants.
func (c Cgroup) AllProcesses() (pids []int, err error) {
	tree, err := c.Tree()
	for _, one := range tree {
		more, err := one.Processes()
		switch {
		case err == nil:
			pids = append(pids, more...)
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENODEV) && !errors.Is(err, unix.EOPNOTSUPP):
			return nil, err // gone, or a threaded cgroup: its domain root lists the processes
		}
	}
	return pids, err
}

// RemoveAll removes the cgroup and its descendants, which must contain no process. A missing one is
// no error.
func (c Cgroup) RemoveAll() error {
	tree, err := c.Tree()
	for _, one := range slices.Backward(tree) {
		err = errors.Join(err, one.Remove())
	}
	return err
}

// rootID is the id of the root of the v2 hierarchy.
const rootID = 1

// Below returns a path relative to the root of the hierarchy. The path need not exist. The result
// is "" if the root is not visible, as in a cgroup namespace.
func Below(path string) string {
	for top := filepath.Dir(path); ; top = filepath.Dir(top) {
		var found unix.Statfs_t
		err := unix.Statfs(top, &found)
		if err == nil && found.Type != unix.CGROUP2_SUPER_MAGIC || top == filepath.Dir(top) {
			return ""
		}
		if id, err := (Cgroup{top}).ID(); err == nil && id == rootID {
			return strings.TrimPrefix(path, top)
		}
	}
}
