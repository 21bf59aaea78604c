// SPDX-License-Identifier: Apache-2.0

package sockdiag

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"weir/internal/texttable"
	"weir/kernel/cgroup"
	"weir/kernel/netns"
)

// Escape is a socket used by a process of a cgroup but charged to another cgroup, and so outside
// the limits of the first.
type Escape struct {
	PID     int    `json:"pid"`     // of one process with the socket
	Command string `json:"command"` // the process's name (comm)
	Inode   uint64 `json:"inode"`   // of the socket, as in /proc/PID/fd
	Cgroup  uint64 `json:"cgroup"`  // id of the cgroup of the socket
}

// Snapshot caches the sockets of the host's processes. It queries each network namespace once,
// regardless of the number of processes and cgroups. It is not safe for concurrent use.
type Snapshot struct {
	root  string
	paths map[uint64]string            // of cgroups, by id
	known map[uint64]map[uint64]uint64 // network namespace's inode -> socket's inode -> cgroup
}

// TakeSnapshot lists the cgroups.
func TakeSnapshot() (*Snapshot, error) {
	root, err := cgroup.Root()
	if err != nil {
		return nil, err
	}
	s := &Snapshot{root: root, known: map[uint64]map[uint64]uint64{}}
	s.paths, err = below(root)
	return s, err
}

// below maps the ids of the cgroup at path and its descendants to their paths.
func below(path string) (map[uint64]string, error) {
	paths := map[uint64]string{}
	err := filepath.WalkDir(path, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			var id uint64
			if id, err = (cgroup.Cgroup{Path: path}).ID(); err == nil {
				paths[id] = path
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list cgroups: %w", err)
	}
	return paths, nil
}

// Escaped lists, by inode, the TCP and UDP sockets used by processes of a cgroup or its descendants
// but charged to a cgroup outside: sockets opened before the process moved, passed by a process
// outside, or accepted from such a listening socket. Restarting the process inside the cgroup fixes
// them. A missing cgroup has none. The error is ErrNoCgroups if the kernel does not report cgroups.
func (s *Snapshot) Escaped(id uint64) ([]Escape, error) {
	path, exists := s.paths[id]
	if !exists || path == s.root {
		return nil, nil
	}
	inside, err := below(path)
	if err != nil {
		return nil, err
	}
	found := map[uint64]Escape{}
	for _, path := range inside {
		pids, err := (cgroup.Cgroup{Path: path}).Processes()
		if err != nil {
			continue // removed meanwhile, or a threaded cgroup: its domain root lists the processes
		}
		for _, pid := range pids {
			if err := s.look(pid, inside, found); err != nil {
				return nil, err
			}
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b Escape) int { return int(a.Inode) - int(b.Inode) }), nil
}

// look adds the process's sockets outside the cgroups. A process that ends meanwhile has none.
func (s *Snapshot) look(pid int, inside map[uint64]string, found map[uint64]Escape) error {
	inodes := socketsOf(pid)
	if len(inodes) == 0 {
		return nil
	}
	sockets, err := s.namespaceOf(pid)
	if err != nil {
		return err
	}
	for _, inode := range inodes {
		group, known := sockets[inode]
		if _, within := inside[group]; known && !within {
			found[inode] = Escape{PID: pid, Command: command(pid), Inode: inode, Cgroup: group}
		}
	}
	return nil
}

// socketsOf lists the inodes of the process's open sockets.
func socketsOf(pid int) (inodes []uint64) {
	folder := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil
	}
	for _, entry := range entries {
		target, err := os.Readlink(filepath.Join(folder, entry.Name()))
		if err != nil {
			continue
		}
		text, isSocket := strings.CutPrefix(target, "socket:[")
		if !isSocket {
			continue
		}
		if inode, err := strconv.ParseUint(strings.TrimSuffix(text, "]"), 10, 64); err == nil {
			inodes = append(inodes, inode)
		}
	}
	return inodes
}

// namespaceOf returns the sockets of the process's network namespace, without its sockets in other
// namespaces.
func (s *Snapshot) namespaceOf(pid int) (map[uint64]uint64, error) {
	ns, err := netns.OpenPath(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return nil, nil
	}
	defer func() { _ = ns.Close() }()
	id, err := ns.Inode()
	if err != nil {
		return nil, err
	}
	if _, asked := s.known[id]; !asked {
		if s.known[id], err = Cgroups(ns); err != nil {
			delete(s.known, id)
			return nil, err
		}
	}
	return s.known[id], nil
}

func command(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	return texttable.Printable(strings.TrimSuffix(string(text), "\n"))
}
