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

// Tree lists the cgroup and all below it, outer ones first. What goes away meanwhile is left out.
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

// AllProcesses lists the processes in the cgroup and in all below it.
func (c Cgroup) AllProcesses() (pids []int, err error) {
	tree, err := c.Tree()
	for _, one := range tree {
		more, err := one.Processes()
		switch {
		case err == nil:
			pids = append(pids, more...)
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENODEV) && !errors.Is(err, unix.EOPNOTSUPP):
			return nil, err // else it has gone, or its processes are listed where its threads' domain begins
		}
	}
	return pids, err
}

// RemoveAll removes the cgroup and all below it, none of which may hold a process. A missing one is
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

// Below is a path, which need not exist, as the kernel knows it: below the root of the hierarchy.
// It is "" where that is not to be seen, as in a cgroup namespace.
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
