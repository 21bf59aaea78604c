// SPDX-License-Identifier: Apache-2.0

package run

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"weir/kernel/cgroup"
	"weir/kernel/testutil"
)

// cgroupSabotages are programs attached to the measuring process's cgroup.
var cgroupSabotages = []struct {
	name    string
	hook    ebpf.AttachType
	program *ebpf.ProgramSpec
}{
	{"a cgroup program signals congestion to TCP", ebpf.AttachCGroupInetEgress, verdict(ebpf.CGroupSKB, ebpf.AttachCGroupInetEgress, 3)},
	{"a cgroup program drops received packets", ebpf.AttachCGroupInetIngress, verdict(ebpf.CGroupSKB, ebpf.AttachCGroupInetIngress, 0)},
	{"a cgroup program answers sock_ops", ebpf.AttachCGroupSockOps, verdict(ebpf.SockOps, ebpf.AttachCGroupSockOps, 1)},
}

// TestProgramsOfTheCgroupAreSeen attaches foreign programs to the measuring cgroup: one signals
// congestion to TCP, one drops, one answers sock_ops.
func TestProgramsOfTheCgroupAreSeen(t *testing.T) {
	testutil.NeedSpeed(t)
	for _, c := range cgroupSabotages {
		t.Run(c.name, func(t *testing.T) {
			group := ownGroup(t)
			outcome := spoil(t, spoiled, Options{}, func(*saboteur) { attach(t, group, c.hook, c.program) })
			r := &outcome.Results[0]
			if want := "the measuring process's cgroup: programs of " + c.hook.String(); r.Valid || !strings.HasPrefix(r.Reasons[0], want) {
				t.Errorf("valid is %v, the reasons are %q, want %q first", r.Valid, r.Reasons, want)
			}
		})
	}
}

// verdict is a program that always returns value.
func verdict(kind ebpf.ProgramType, hook ebpf.AttachType, value int32) *ebpf.ProgramSpec {
	return &ebpf.ProgramSpec{Type: kind, AttachType: hook, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, value), asm.Return()}}
}

// ownGroup moves this process into a new cgroup until the test ends.
func ownGroup(t *testing.T) string {
	t.Helper()
	before, err := cgroup.Own()
	testutil.Need(t, "cgroup v2", err)
	group := testutil.Cgroup(t)
	enter := func(path string) {
		if err := os.WriteFile(filepath.Join(path, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	enter(group.Path)
	t.Cleanup(func() { enter(before) })
	return group.Path
}

func attach(t *testing.T, group string, hook ebpf.AttachType, spec *ebpf.ProgramSpec) {
	program, err := ebpf.NewProgram(spec)
	if err != nil {
		t.Error(err)
		return
	}
	t.Cleanup(func() { _ = program.Close() })
	attached, err := link.AttachCgroup(link.CgroupOptions{Path: group, Attach: hook, Program: program})
	if err != nil {
		t.Error(err)
		return
	}
	t.Cleanup(func() { _ = attached.Close() })
}
