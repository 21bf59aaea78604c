// SPDX-License-Identifier: Apache-2.0

package match

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/features"

	"weir/internal/fault"
	"weir/kernel/probe"
)

// MaxCgroupLevels is the number of cgroup levels that match, including the root. A deeper cgroup
// cannot have a scope.
const MaxCgroupLevels = int(matchMatchBoundsMATCH_CGROUP_LEVELS)

// MaxScopes is the maximum number of scopes of one packet or socket. The outermost are omitted.
const MaxScopes = int(matchMatchBoundsMATCH_SCOPES)

// kind holds the properties of a Kind in bpf/match.h.
type kind struct {
	entries string // name of the map
	bit     matchMatchKind
	narrow  bool // 32-bit numbers
	form    form
	words   func(Key) string
	// needs lists the helpers that programs of a type need for the kind, and the kernel with them.
	needs map[ebpf.ProgramType]need
}

type need struct {
	helper asm.BuiltinFunc
	btf    bool // needs the kernel's structures
	kernel string
}

// structures is the need of sockops programs for keys without a helper.
var structures = map[ebpf.ProgramType]need{ebpf.SockOps: {asm.FnSkcToTcpSock, true, "Linux 5.11 with CONFIG_DEBUG_INFO_BTF and CONFIG_BPF_JIT"}}

var kinds = map[Kind]kind{
	Cgroup: {entries: matchMapScopeCgroups, bit: matchMatchKindMATCH_CGROUPS, form: wide, needs: structures,
		words: func(k Key) string { return fmt.Sprintf("cgroup id %d and the cgroups below it", k.Number) }},
	User: {entries: matchMapScopeUsers, bit: matchMatchKindMATCH_USERS, narrow: true, form: formOf(Key.users), needs: structures,
		words: func(Key) string { return "the socket's user" }},
	Interface: {entries: matchMapScopeInterfaces, bit: matchMatchKindMATCH_INTERFACES, narrow: true, form: narrow, needs: structures,
		words: func(k Key) string { return fmt.Sprintf("interface index %d", k.Number) }},
	Prefix: {entries: matchMapScopePrefixes, bit: matchMatchKindMATCH_PREFIXES, form: formOf(Key.prefix),
		words: func(Key) string { return "longest remote prefix" }},
	Netns: {entries: matchMapScopeNetspaces, bit: matchMatchKindMATCH_NETNS, form: wide,
		needs: map[ebpf.ProgramType]need{
			ebpf.CGroupSKB: {asm.FnGetNetnsCookie, false, "Linux 6.15"},
			ebpf.SchedCLS:  {asm.FnGetNetnsCookie, false, "Linux 6.15"},
			ebpf.SockOps:   {asm.FnGetNetnsCookie, false, "Linux 5.15"},
		},
		words: func(k Key) string { return fmt.Sprintf("network namespace cookie %d", k.Number) }},
	Mark: {entries: matchMapScopeMarks, bit: matchMatchKindMATCH_MARKS, narrow: true, form: narrow, needs: structures,
		words: func(k Key) string { return fmt.Sprintf("socket mark %#x", k.Number) }},
}

// Needs returns the missing kernel feature for programs of a type to match the kind, or nil.
func (k Kind) Needs(program ebpf.ProgramType) error {
	need, some := kinds[k].needs[program]
	if !some {
		return nil
	}
	err := features.HaveProgramHelper(program, need.helper)
	if err == nil && need.btf {
		err = readsStructures()
	}
	if err == nil {
		return nil
	}
	err = fmt.Errorf("match traffic by %s in %s programs: %w", k, program, err)
	if !errors.Is(err, ebpf.ErrNotSupported) {
		return err
	}
	return fault.Wrap(err, fault.Testbed, "use "+need.kernel+" or newer, or another selector")
}

// Reads returns the missing kernel feature for programs of a type to read kernel memory, or nil.
// Without it users in user namespaces match by the numbers of that namespace.
func Reads(program ebpf.ProgramType) error {
	if _, err := btf.LoadKernelSpec(); err != nil {
		return err
	}
	return features.HaveProgramHelper(program, asm.FnProbeReadKernel)
}

// readsStructures returns the missing kernel feature for programs to read kernel structures, or
// nil. Without tracing (CONFIG_BPF_EVENTS) the interpreter reads zeros.
func readsStructures() error {
	if _, err := btf.LoadKernelSpec(); err != nil {
		return err
	}
	if features.HaveProgramType(ebpf.TracePoint) == nil {
		return nil
	}
	return probe.JIT()
}

// form is how keys of a kind are written into its map: one, and several for one system call.
type form struct {
	one  func(Key) any
	many func([]Key) any
}

func formOf[T any](of func(Key) T) form {
	return form{
		one: func(k Key) any { return of(k) },
		many: func(all []Key) any {
			list := make([]T, len(all))
			for i, k := range all {
				list[i] = of(k)
			}
			return list
		},
	}
}

var (
	wide   = formOf(func(k Key) uint64 { return k.Number })
	narrow = formOf(func(k Key) uint32 { return uint32(k.Number) })
)
