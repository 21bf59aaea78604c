// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"os"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// LimitHooks are the hooks of a cgroup at which limits have programs: egress, ingress, and sockets.
var LimitHooks = [3]ebpf.AttachType{ebpf.AttachCGroupInetEgress, ebpf.AttachCGroupInetIngress, ebpf.AttachCGroupSockOps}

// ProgramsAt are those that the cgroup at path itself has at a hook. Where the kernel does not
// tell, it skips the test.
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

// CountPrograms is the number of programs that the cgroup at path itself has at each of LimitHooks.
func CountPrograms(t testing.TB, path string) (n [len(LimitHooks)]int) {
	t.Helper()
	for i, hook := range LimitHooks {
		n[i] = len(ProgramsAt(t, path, hook))
	}
	return n
}
