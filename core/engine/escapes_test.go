// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"testing"

	"weir/kernel/cgroup"
	"weir/kernel/sockdiag"
	"weir/kernel/testutil"
)

// A process that brings an open socket along has it counted as escaped from its scope, in the
// status and in the metrics.
func TestSocketsFromOutsideAreCountedAsEscaped(t *testing.T) {
	e := setup(t)
	inside := cgroup.Cgroup{Path: testutil.Mkdir(t, e.CgroupRoot, "a")}
	testutil.Mkdir(t, e.CgroupRoot, "b")
	apply(t, e, limited("a", 1e6), limited("b", 1e6))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	file, err := listener.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	process := exec.Command(testutil.Command(t, "sleep"), "60")
	process.ExtraFiles = []*os.File{file}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = process.Process.Kill()
		_ = process.Wait()
	}()
	if err := inside.Add(process.Process.Pid); err != nil {
		t.Fatal(err)
	}
	status, err := e.Status()
	if err != nil {
		t.Fatal(err)
	}
	if err := e.FindEscapes(&status); errors.Is(err, sockdiag.ErrNoCgroups) {
		testutil.Need(t, "INET_DIAG_CGROUP_ID", err)
	} else if err != nil {
		t.Fatal(err)
	}
	for _, s := range status.Scopes {
		if want := map[string]int{"a": 1, "b": 0}[s.Name]; len(s.Escaped) != want {
			t.Errorf("scope %s: escaped %+v, want %d", s.Name, s.Escaped, want)
		}
	}
}
