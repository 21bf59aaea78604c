// SPDX-License-Identifier: Apache-2.0

// Package cgroup creates and removes cgroups of the v2 hierarchy.
package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"weir/internal/fault"
	"weir/kernel/netns"
)

// Root returns the mount point of the v2 hierarchy: /sys/fs/cgroup, or /sys/fs/cgroup/unified in
// hybrid mode.
func Root() (string, error) {
	_, v2, err := Mounts()
	if err != nil {
		return "", err
	}
	if len(v2) > 0 {
		return v2[0], nil
	}
	return "", fault.New(fault.Testbed, wayToMount(netns.Dir),
		"the cgroup v2 hierarchy is not mounted; cgroup v1 alone has no hooks for BPF")
}

// wayToMount returns the advice for a process without a visible hierarchy. 'ip netns exec' mounts a
// new /sys over the one with the hierarchy, and nothing can be mounted below it. names is the
// folder of its network namespaces.
func wayToMount(names string) string {
	own, err := os.Stat("/proc/thread-self/ns/net")
	if err == nil {
		entries, _ := os.ReadDir(names)
		for _, e := range entries {
			if there, err := os.Stat(filepath.Join(names, e.Name())); err == nil && os.SameFile(own, there) {
				return "enter the namespace by: nsenter --net=" + filepath.Join(names, e.Name()) + " weir ...; 'ip netns exec' hides /sys/fs/cgroup"
			}
		}
	}
	return "mount it: mount -t cgroup2 none /sys/fs/cgroup/unified"
}

// Cgroup is one cgroup of the v2 hierarchy.
type Cgroup struct{ Path string }

// Create creates a cgroup below parent, or below the root if parent is "". An existing name is an
// error.
func Create(parent, name string) (Cgroup, error) {
	if parent == "" {
		root, err := Root()
		if err != nil {
			return Cgroup{}, err
		}
		parent = root
	}
	path := filepath.Join(parent, name)
	if err := os.Mkdir(path, 0o755); err != nil {
		return Cgroup{}, fault.Wrap(fmt.Errorf("create cgroup: %w", err), status(err), "run it as root")
	}
	return Cgroup{path}, nil
}

func status(err error) fault.Status {
	if errors.Is(err, os.ErrPermission) {
		return fault.Permission
	}
	return fault.Failed
}

// ID returns the id of the cgroup in BPF programs: the inode number of its directory.
func (c Cgroup) ID() (uint64, error) {
	var info unix.Stat_t
	err := unix.Stat(c.Path, &info)
	if errors.Is(err, unix.ENOTDIR) || err == nil && info.Mode&unix.S_IFMT != unix.S_IFDIR {
		return 0, fault.New(fault.Usage, "name the folder of the cgroup, as in "+filepath.Dir(c.Path), "%s is a file, not a cgroup", c.Path)
	}
	if err != nil {
		return 0, fmt.Errorf("stat cgroup %s: %w", c.Path, err)
	}
	return info.Ino, nil
}

// Add moves a process into the cgroup. Its open sockets stay charged to the former cgroup.
func (c Cgroup) Add(pid int) error {
	if err := os.WriteFile(filepath.Join(c.Path, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
		return fmt.Errorf("move process %d into cgroup %s: %w", pid, c.Path, err)
	}
	return nil
}

// Processes lists the processes in the cgroup itself.
func (c Cgroup) Processes() ([]int, error) {
	text, err := os.ReadFile(filepath.Join(c.Path, "cgroup.procs"))
	if err != nil {
		return nil, fmt.Errorf("list processes of cgroup %s: %w", c.Path, err)
	}
	var pids []int
	for _, field := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return nil, fmt.Errorf("list processes of cgroup %s: %w", c.Path, err)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// Remove removes the cgroup, which must contain no process and no cgroup. A missing one is no
// error.
func (c Cgroup) Remove() error {
	if err := os.Remove(c.Path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove cgroup: %w", err)
	}
	return nil
}
