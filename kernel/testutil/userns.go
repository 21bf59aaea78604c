// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"fmt"
	"os/exec"
	"testing"
	"time"

	"weir/kernel/netns"
)

// ForeignNamespace returns a network namespace in another user namespace, such as any user can
// make.
func ForeignNamespace(t testing.TB) (foreign *netns.Namespace) {
	t.Helper()
	NeedRoot(t)
	here, err := netns.Current()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = here.Close() }()
	home, err := here.Inode()
	if err != nil {
		t.Fatal(err)
	}
	other := exec.Command(Command(t, "unshare"), "--user", "--net", "sleep", "infinity")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = other.Process.Kill(), other.Wait() })
	Eventually(t, time.Minute, "a process leaves its network namespace", func() bool {
		ns, err := netns.OpenPath(fmt.Sprintf("/proc/%d/ns/net", other.Process.Pid))
		if err != nil {
			return false
		}
		if now, err := ns.Inode(); err != nil || now == home {
			_ = ns.Close()
			return false
		}
		foreign = ns
		return true
	})
	t.Cleanup(func() { _ = foreign.Close() })
	return foreign
}
