// SPDX-License-Identifier: Apache-2.0

package match

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// Sweep removes stale cgroups from a data plane's map: those in no assignment and unknown to the
// program that Rebind pinned in dir. Without it, a user who creates and removes a scope's cgroup
// endlessly could fill the map.
func Sweep(dir string, cgroups *ebpf.Map, keep ...Assignments) error {
	var all []uint64
	var id uint64
	var scope uint32
	entries := cgroups.Iterate()
	for entries.Next(&id, &scope) {
		all = append(all, id)
	}
	if err := entries.Err(); err != nil && !errors.Is(err, ebpf.ErrIterationAborted) {
		return rebindFault(err)
	}
	bound := map[uint64]bool{} // read after the map: the program records an id here first
	err := eachPaths(dir, func(paths *ebpf.Map) error {
		var key rebindRebindPath
		var known rebindRebindScope
		entries := paths.Iterate()
		for entries.Next(&key, &known) {
			bound[known.Id] = true
		}
		return entries.Err()
	})
	if errors.Is(err, os.ErrPermission) { // entries of Rebind are indistinguishable from stale ones
		return nil
	}
	if err != nil {
		return rebindFault(err)
	}
	for _, assignments := range keep {
		for key := range assignments {
			bound[key.Number] = bound[key.Number] || key.Kind == Cgroup
		}
	}
	for _, id := range all {
		if bound[id] {
			continue
		}
		if err := cgroups.Delete(id); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return rebindFault(err)
		}
	}
	return nil
}

// silence removes the paths of a pinned program, which the kernel ends some time later.
func silence(dir string) error {
	return eachPaths(dir, func(paths *ebpf.Map) error {
		var key rebindRebindPath
		for paths.NextKey(nil, &key) == nil {
			if err := paths.Delete(key); err != nil {
				return err
			}
		}
		return nil
	})
}

// eachPaths calls f with the path maps of the program pinned in dir, if any.
func eachPaths(dir string, f func(*ebpf.Map) error) error {
	pinned, err := link.LoadPinnedLink(filepath.Join(dir, RebindPin), nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = pinned.Close() }()
	info, err := pinned.Info()
	if err != nil {
		return err
	}
	program, err := ebpf.NewProgramFromID(info.Program)
	if err != nil {
		return err
	}
	defer func() { _ = program.Close() }()
	about, err := program.Info()
	if err != nil {
		return err
	}
	ids, _ := about.MapIDs()
	for _, id := range ids {
		if err := ofPaths(id, f); err != nil {
			return err
		}
	}
	return nil
}

// ofPaths calls f with a map if it is a path map.
func ofPaths(id ebpf.MapID, f func(*ebpf.Map) error) error {
	paths, err := ebpf.NewMapFromID(id)
	if err != nil {
		return err
	}
	defer func() { _ = paths.Close() }()
	if paths.KeySize() != uint32(unsafe.Sizeof(rebindRebindPath{})) {
		return nil
	}
	return f(paths)
}
