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

// MaxCgroupLevels is how many levels of cgroups a data plane tells, the root's among them: a cgroup
// with as many above it, or more, has no scope of its own.
const MaxCgroupLevels = int(matchMatchBoundsMATCH_CGROUP_LEVELS)

// MaxScopes is how many scopes of one packet or socket are found; the outermost are left out.
const MaxScopes = int(matchMatchBoundsMATCH_SCOPES)

// kind is what bpf/match.h has of a Kind.
type kind struct {
	entries string // name of the map
	bit     matchMatchKind
	narrow  bool // numbers have 32 bits
	form    form
	words   func(Key) string
	// needs are helpers without which programs of a type cannot tell it, and the kernel that has
	// them.
	needs map[ebpf.ProgramType]need
}

type need struct {
	helper asm.BuiltinFunc
	btf    bool // that it is told from the kernel's structures
	kernel string
}

// structures is what sockops programs need for what they have no helper for.
var structures = map[ebpf.ProgramType]need{ebpf.SockOps: {asm.FnSkcToTcpSock, true, "Linux 5.11 with CONFIG_DEBUG_INFO_BTF and CONFIG_BPF_JIT"}}

var kinds = map[Kind]kind{
	Cgroup: {entries: matchMapScopeCgroups, bit: matchMatchKindMATCH_CGROUPS, form: wide, needs: structures,
		words: func(k Key) string { return fmt.Sprintf("cgroup id %d and the cgroups below it", k.Number) }},
	User: {entries: matchMapScopeUsers, bit: matchMatchKindMATCH_USERS, narrow: true, form: narrow, needs: structures,
		words: func(Key) string { return "the socket's user" }},
	Interface: {entries: matchMapScopeInterfaces, bit: matchMatchKindMATCH_INTERFACES, narrow: true, form: narrow, needs: structures,
		words: func(k Key) string { return fmt.Sprintf("interface index %d", k.Number) }},
	Prefix: {entries: matchMapScopePrefixes, bit: matchMatchKindMATCH_PREFIXES, form: formOf(Key.bits),
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

// Needs says what this kernel lacks for programs of a type to tell traffic by the kind; nil for
// nothing.
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
	err = fmt.Errorf("tell traffic by %s in %s programs: %w", k, program, err)
	if !errors.Is(err, ebpf.ErrNotSupported) {
		return err
	}
	return fault.Wrap(err, fault.Testbed, "use "+need.kernel+" or newer, or another selector")
}

// Reads says what this kernel lacks for programs of a type to read its memory: without it users in
// user namespaces of their own are told by the numbers there.
func Reads(program ebpf.ProgramType) error {
	if _, err := btf.LoadKernelSpec(); err != nil {
		return err
	}
	return features.HaveProgramHelper(program, asm.FnProbeReadKernel)
}

// readsStructures says what this kernel lacks for programs to read its structures. An interpreter
// reads zeros from them where the kernel has no tracing (CONFIG_BPF_EVENTS).
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
