// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"fmt"
	"os/exec"
	"testing"
	"time"

	"weir/internal/kernel/netns"
	"weir/internal/testutil"
)

func TestForeignNamespacesAreThoseOfOtherUserNamespaces(t *testing.T) {
	testutil.NeedRoot(t)
	own := testutil.Namespace(t, "owner")
	if foreign, err := own.Foreign(); err != nil || foreign {
		t.Errorf("one that this process has made: foreign %t, %v", foreign, err)
	}
	other := exec.Command(testutil.Command(t, "unshare"), "--user", "--net", "sleep", "infinity")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = other.Process.Kill(), other.Wait() }()
	here, err := netns.Current()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = here.Close() }()
	home, err := here.Inode()
	if err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, time.Minute, "a namespace of another user namespace is told", func() bool {
		ns, err := netns.OpenPath(fmt.Sprintf("/proc/%d/ns/net", other.Process.Pid))
		if err != nil {
			return false
		}
		defer func() { _ = ns.Close() }()
		if now, err := ns.Inode(); err != nil || now == home {
			return false // it has not left yet
		}
		foreign, err := ns.Foreign()
		return err == nil && foreign
	})
}
