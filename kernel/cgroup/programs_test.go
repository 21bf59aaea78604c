// SPDX-License-Identifier: Apache-2.0

package cgroup_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"weir/internal/fault"
	"weir/kernel/cgroup"
	"weir/kernel/testutil"
)

// allow returns a program that allows every packet.
func allow(t *testing.T, name string) *ebpf.Program {
	t.Helper()
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: name, Type: ebpf.CGroupSKB, AttachType: ebpf.AttachCGroupInetEgress,
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 1), asm.Return()}, License: "GPL"})
	testutil.Need(t, "programs of cgroups", err)
	t.Cleanup(func() { _ = program.Close() })
	return program
}

// attachAs attaches a program without a link, with these flags, until the test ends.
func attachAs(t *testing.T, path string, program *ebpf.Program, flags uint32) {
	t.Helper()
	directory, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = directory.Close() })
	target := int(directory.Fd())
	if err := link.RawAttachProgram(link.RawAttachProgramOptions{Target: target, Program: program, Attach: ebpf.AttachCGroupInetEgress, Flags: flags}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = link.RawDetachProgram(link.RawDetachProgramOptions{Target: target, Program: program, Attach: ebpf.AttachCGroupInetEgress})
	})
}

// The error names an exclusive program of another owner, its cgroup and the way out. The kernel
// reports EPERM, to root as well.
func TestExclusiveProgramsAreNamed(t *testing.T) {
	testutil.NeedRoot(t)
	const hook = ebpf.AttachCGroupInetEgress
	for _, test := range []struct {
		name    string
		flags   uint32
		below   bool // attach below the cgroup of the program, not to it
		blocked bool
	}{
		{"exclusive", 0, false, true},
		{"exclusive above", 0, true, true},
		{"with override", unix.BPF_F_ALLOW_OVERRIDE, false, true},
		{"with override above", unix.BPF_F_ALLOW_OVERRIDE, true, false},
		{"multi", unix.BPF_F_ALLOW_MULTI, false, false},
		{"multi above", unix.BPF_F_ALLOW_MULTI, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := testutil.Cgroup(t).Path
			foreign := allow(t, "their_filter")
			attachAs(t, path, foreign, test.flags)
			info, err := foreign.Info()
			if err != nil {
				t.Fatal(err)
			}
			id, _ := info.ID()
			at := path
			if test.below {
				at = filepath.Join(path, "below")
				if err := os.Mkdir(at, 0o755); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = os.Remove(at) })
			}
			l, err := cgroup.AttachProgram(at, hook, allow(t, "ours"))
			if err == nil {
				_ = l.Close()
			}
			if planned := cgroup.Attachable(at, hook); (planned != nil) != test.blocked || (err != nil) != test.blocked {
				t.Fatalf("planned %v, attached %v, want blocked %v", planned, err, test.blocked)
			}
			if !test.blocked {
				return
			}
			for _, want := range []string{fmt.Sprintf("program %d (their_filter)", id), path, "cgroup_inet_egress"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q lacks %q", err, want)
				}
			}
			if want := fmt.Sprintf("bpftool cgroup detach %s cgroup_inet_egress id %d", path, id); !strings.Contains(fault.Advice(err), want) {
				t.Errorf("advice %q lacks %q", fault.Advice(err), want)
			}
			if fault.Of(err) == fault.Permission {
				t.Error("the status is that of a missing privilege")
			}
		})
	}
}
