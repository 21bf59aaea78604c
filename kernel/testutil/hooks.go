// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"os"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// LimitHooks are the cgroup hooks of the policer's programs: egress, ingress, and sockets.
var LimitHooks = [3]ebpf.AttachType{ebpf.AttachCGroupInetEgress, ebpf.AttachCGroupInetIngress, ebpf.AttachCGroupSockOps}

// ProgramsAt returns the programs attached at a hook of the cgroup at path itself. It skips the
// test if the kernel does not report them.
func ProgramsAt(t testing.TB, path string, hook ebpf.AttachType) []link.AttachedProgram {
	t.Helper()
	dir, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dir.Close() }()
	found, err := link.QueryPrograms(link.QueryOptions{Target: int(dir.Fd()), Attach: hook})
	Need(t, "BPF_PROG_QUERY of a cgroup", err)
	return found.Programs
}

// CountPrograms returns the number of programs of the cgroup at path itself at each of LimitHooks.
func CountPrograms(t testing.TB, path string) (n [len(LimitHooks)]int) {
	t.Helper()
	for i, hook := range LimitHooks {
		n[i] = len(ProgramsAt(t, path, hook))
	}
	return n
}
