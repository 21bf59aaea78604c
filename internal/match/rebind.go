// SPDX-License-Identifier: Apache-2.0

package match

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"weir/internal/fault"
)

// Place is where a scope's cgroup is, or comes.
type Place struct {
	Scope int
	ID    uint64 // of the cgroup that is there now; 0 for none
}

// Cgroups is the bit of the kind in what a data plane is told of kinds.
const Cgroups = uint32(matchMatchKindMATCH_CGROUPS)

// RebindPin is the name of the pin of the program that binds cgroups when they are made.
const RebindPin = "rebind"

// LongestPath is how long the path of a cgroup may be that is bound when it is made, in octets.
const LongestPath = int(unsafe.Sizeof(rebindRebindPath{})) - 1

// Rebind has the kernel put the ids of cgroups that are made at these paths, below the root of the
// v2 hierarchy, into a data plane's map of them. Its pin in dir takes the place of an earlier one.
// The error wraps ebpf.ErrNotSupported where the kernel has no such hook.
func Rebind(dir string, cgroups *ebpf.Map, places map[string]Place) error {
	pin := filepath.Join(dir, RebindPin)
	if err := silence(pin); err != nil {
		return rebindFault(err)
	}
	if len(places) == 0 {
		if err := os.Remove(pin); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return rebindFault(err)
		}
		return nil
	}
	objects, err := loadRebinder(cgroups, len(places))
	if err != nil {
		return rebindFault(err)
	}
	defer func() { _ = objects.Close() }()
	for path, place := range places {
		var key rebindRebindPath
		if len(path) > LongestPath {
			continue
		}
		for i := range len(path) {
			key.Path[i] = int8(path[i])
		}
		if err := objects.RebindPaths.Put(key, rebindRebindScope{Scope: uint32(place.Scope), Id: place.ID}); err != nil {
			return rebindFault(err)
		}
	}
	attached, err := link.AttachTracing(link.TracingOptions{Program: objects.RebindCgroup})
	if err != nil {
		return rebindFault(err)
	}
	defer func() { _ = attached.Close() }()
	_ = os.Remove(pin + "-next") // of one that was killed
	if err := attached.Pin(pin + "-next"); err != nil {
		return rebindFault(err)
	}
	return rebindFault(os.Rename(pin+"-next", pin))
}

// silence takes its paths from a pinned program: the kernel ends it in its own time.
func silence(pin string) error {
	old, err := link.LoadPinnedLink(pin, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = old.Close() }()
	info, err := old.Info()
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
	maps, _ := about.MapIDs()
	for _, id := range maps {
		if err := clearPaths(id); err != nil {
			return err
		}
	}
	return nil
}

// clearPaths empties a map if it is one of paths.
func clearPaths(id ebpf.MapID) error {
	paths, err := ebpf.NewMapFromID(id)
	if err != nil {
		return err
	}
	defer func() { _ = paths.Close() }()
	var key rebindRebindPath
	if paths.KeySize() != uint32(unsafe.Sizeof(key)) {
		return nil
	}
	for paths.NextKey(nil, &key) == nil {
		if err := paths.Delete(key); err != nil {
			return err
		}
	}
	return nil
}

// Holds says whether a data plane's map has the cgroup of a key for a scope, whoever has put it
// there. Keys of other kinds are never put there but by Reassign.
func Holds(cgroups *ebpf.Map, key Key, scope int) (bool, error) {
	if key.Kind != Cgroup {
		return false, nil
	}
	var is uint32
	err := cgroups.Lookup(key.Number, &is)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return false, nil
	}
	return err == nil && is == uint32(scope), err
}

func loadRebinder(cgroups *ebpf.Map, places int) (objects rebindObjects, err error) {
	spec, err := loadRebind()
	if err != nil {
		return objects, err
	}
	spec.Maps[rebindMapRebindPaths].MaxEntries = uint32(places)
	spec.Maps[rebindMapScopeCgroups].MaxEntries = cgroups.MaxEntries()
	err = spec.LoadAndAssign(&objects, &ebpf.CollectionOptions{MapReplacements: map[string]*ebpf.Map{rebindMapScopeCgroups: cgroups}})
	return objects, err
}

// CanRebind says what this kernel lacks for Rebind.
func CanRebind() error {
	cgroups, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 8, ValueSize: 4, MaxEntries: 1})
	if err != nil {
		return rebindFault(err)
	}
	defer func() { _ = cgroups.Close() }()
	objects, err := loadRebinder(cgroups, 1)
	if err != nil {
		return rebindFault(err)
	}
	defer func() { _ = objects.Close() }()
	attached, err := link.AttachTracing(link.TracingOptions{Program: objects.RebindCgroup})
	if err != nil {
		return rebindFault(err)
	}
	return attached.Close()
}

func rebindFault(err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("bind cgroups when they are made: %w", err)
	if errors.Is(err, os.ErrPermission) {
		return fault.Wrap(err, fault.Permission, "run it as root, or with CAP_BPF and CAP_PERFMON")
	}
	return err
}
