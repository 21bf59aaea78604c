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

	"weir/kernel/bpferr"
	"weir/kernel/cgroup"
)

// Place is the existing or future cgroup of a scope.
type Place struct {
	Scope int
	ID    uint64 // of the existing cgroup; 0 for none
}

// Cgroups is the bit of cgroups in the kinds of a data plane.
const Cgroups = uint32(matchMatchKindMATCH_CGROUPS)

// RebindPin is the name of the pinned program that binds new cgroups.
const RebindPin = "rebind"

// MaxPath is the maximum length in bytes of the path of a cgroup that the kernel binds.
const MaxPath = int(unsafe.Sizeof(rebindRebindPath{})) - 1

// Rebind loads a kernel program that stores the ids of new cgroups at these paths, below the root
// of the v2 hierarchy, in a data plane's map. Its pin in dir replaces an earlier one. Rebind also
// binds cgroups created since the places were read. The error wraps ebpf.ErrNotSupported if the
// kernel has no such hook.
func Rebind(dir string, cgroups *ebpf.Map, places map[string]Place) error {
	pin := filepath.Join(dir, RebindPin)
	if err := silence(dir); err != nil {
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
		if key, fits := pathKey(path); fits {
			if err := objects.RebindPaths.Put(key, rebindRebindScope{Scope: uint32(place.Scope), Id: place.ID}); err != nil {
				return rebindFault(err)
			}
		}
	}
	attached, err := link.AttachTracing(link.TracingOptions{Program: objects.RebindCgroup})
	if err != nil {
		return rebindFault(err)
	}
	defer func() { _ = attached.Close() }()
	for path := range places {
		if err := bindMissed(&objects, path); err != nil {
			return rebindFault(err)
		}
	}
	_ = os.Remove(pin + "-next") // left by a killed process
	if err := attached.Pin(pin + "-next"); err != nil {
		return rebindFault(err)
	}
	return rebindFault(os.Rename(pin+"-next", pin))
}

func pathKey(path string) (key rebindRebindPath, fits bool) {
	if len(path) > MaxPath {
		return key, false
	}
	for i := range len(path) {
		key.Path[i] = int8(path[i])
	}
	return key, true
}

// bindMissed binds a cgroup that was created before the program watched its path.
func bindMissed(objects *rebindObjects, path string) error {
	key, fits := pathKey(path)
	root, err := cgroup.Root()
	if !fits || err != nil {
		return err
	}
	var known rebindRebindScope
	id, err := cgroup.Cgroup{Path: filepath.Join(root, path)}.ID()
	if err != nil || objects.RebindPaths.Lookup(key, &known) != nil || known.Id == id {
		return nil // removed, or known
	}
	before := known.Id
	known.Id = id
	if err := objects.RebindPaths.Put(key, known); err != nil {
		return err
	}
	if err := objects.ScopeCgroups.Delete(before); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return err
	}
	return objects.ScopeCgroups.Put(id, known.Scope)
}

// Holds reports whether a data plane's map assigns the cgroup of a key to a scope. Only Reassign
// adds keys of other kinds.
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

// CanRebind returns the missing kernel feature for Rebind, or nil.
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

// rebindFault returns nil for nil.
func rebindFault(err error) error {
	return programNeeds.Fault("bind cgroups when they are made", err)
}

// programNeeds lists the requirements of the programs.
var programNeeds = bpferr.Needs{Capabilities: "CAP_BPF and CAP_PERFMON", Kernel: "Linux 6.1 or later with CONFIG_DEBUG_INFO_BTF"}
