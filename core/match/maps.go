// SPDX-License-Identifier: Apache-2.0

package match

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weir/kernel/bpfmap"
)

// Assignments say which scope applies to which traffic; the values are numbers of scopes.
type Assignments map[Key]int

// Prepare makes room for so many scopes of each kind in the maps of bpf/match.h that spec has, and
// lets programs of this type tell network namespaces where the kernel can, and users by the host's
// numbers: interface indices are then those of this thread's.
func Prepare(spec *ebpf.CollectionSpec, program ebpf.ProgramType, scopes int) error {
	for _, kind := range kinds {
		if entries := spec.Maps[kind.entries]; entries != nil {
			entries.MaxEntries = uint32(scopes)
		}
	}
	if orders := spec.Maps[matchMapScopeOrders]; orders != nil {
		orders.MaxEntries = uint32(scopes)
	}
	if cgroups := spec.Maps[matchMapScopeCgroups]; cgroups != nil {
		cgroups.MaxEntries *= 2 // one that has gone stays until somebody looks
	}
	if reads := spec.Variables[matchVarScopeReads]; reads != nil && Reads(program) == nil {
		if err := reads.Set(uint32(1)); err != nil {
			return fmt.Errorf("let %s programs read users: %w", program, err)
		}
	}
	if Netns.Needs(program) != nil {
		return nil
	}
	cookie, err := ThisNetns()
	if err != nil {
		return err
	}
	if err := spec.Variables[matchVarScopeNetns].Set(cookie); err != nil {
		return fmt.Errorf("set the network namespace of %s programs: %w", program, err)
	}
	return nil
}

// ThisNetns is the cookie of this thread's network namespace (Linux 5.14).
func ThisNetns() (uint64, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("open socket: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return 0, fmt.Errorf("read cookie of the network namespace: %w", err)
	}
	return cookie, nil
}

// Fields are the maps in a structure that bpf2go has generated, which maps points to, by their
// names in C.
func Fields(maps any) map[string]**ebpf.Map {
	all, fields := map[string]**ebpf.Map{}, reflect.ValueOf(maps).Elem()
	for i := range fields.NumField() {
		if m, is := fields.Field(i).Addr().Interface().(**ebpf.Map); is {
			all[fields.Type().Field(i).Tag.Get("ebpf")] = m
		}
	}
	return all
}

// Maps are the maps of bpf/match.h that a data plane of this type of program has loaded.
type Maps struct {
	Program ebpf.ProgramType
	Entries map[string]**ebpf.Map // by name; others are left alone
}

// Reassign ends the assignments that are gone, whatever their scopes, and makes those of now; what
// is in neither stays. used has the bits of the kinds in now (enum match_kind), which the programs
// are to be told afterwards. An error leaves some assignments done and others not; it can be
// repeated.
func (m Maps) Reassign(gone, now Assignments) (used uint32, err error) {
	for key := range gone {
		if _, stays := now[key]; stays {
			continue
		}
		if err := m.end(key); err != nil {
			return used, fmt.Errorf("unassign %s: %w", key, err)
		}
	}
	keys, scopes := map[Kind][]Key{}, map[Kind][]uint32{}
	for key, scope := range now {
		if err := key.check(); err != nil {
			return used, fmt.Errorf("assign scope %d: %w", scope, err)
		}
		keys[key.Kind], scopes[key.Kind] = append(keys[key.Kind], key), append(scopes[key.Kind], uint32(scope))
	}
	for kind := range keys {
		if err := kind.Needs(m.Program); err != nil {
			return used, err
		}
		if err := m.put(kind, keys[kind], scopes[kind]); err != nil {
			return used, fmt.Errorf("assign scopes by %s: %w", kind, err)
		}
		used |= uint32(kinds[kind].bit)
	}
	return used, nil
}

func (m Maps) end(key Key) error {
	if err := key.check(); err != nil {
		return err
	}
	kind := kinds[key.Kind]
	if err := (*m.Entries[kind.entries]).Delete(kind.form.one(key)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return err
	}
	return nil
}

// put stores entries with one system call where the kernel can (Linux 5.6; 5.13 for prefixes), else
// one by one.
func (m Maps) put(of Kind, keys []Key, scopes []uint32) error {
	kind := kinds[of]
	entries := *m.Entries[kind.entries]
	if n, err := entries.BatchUpdate(kind.form.many(keys), scopes, nil); err == nil && n == len(keys) {
		return nil
	}
	for i := range keys {
		if err := bpfmap.Put(entries, kind.form.one(keys[i]), scopes[i]); err != nil {
			return err
		}
	}
	return nil
}
