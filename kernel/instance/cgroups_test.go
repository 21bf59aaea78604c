// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"weir/internal/child"
	"weir/kernel/cgroup"
	"weir/kernel/probe"
	"weir/kernel/testutil"
)

// idle waits for the end of its input.
func idle(in io.Reader, _ io.Writer) error {
	_, _ = io.Copy(io.Discard, in)
	return nil
}

// occupied makes a lab with a cgroup, a host's cgroup below it, and an idle process in that. The
// caller ends all three.
func occupied(t *testing.T) (lab *Instance, group cgroup.Cgroup, process *child.Process) {
	t.Helper()
	testutil.Snapshot(t)
	testutil.Need(t, "cgroup v2", probe.CgroupV2())
	t.Setenv("WEIR_RUN_DIR", t.TempDir())
	lab, err := New("test", Run)
	if err != nil {
		t.Fatal(err)
	}
	group, err = lab.Cgroup()
	if err != nil {
		t.Fatal(err)
	}
	process, err = child.Start(t.Context(), "idle", os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	host, err := cgroup.Create(group.Path, "host")
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Add(process.PID()); err != nil {
		t.Fatal(err)
	}
	return lab, group, process
}

func TestClearRemovesTheLabsCgroupsAndWhatRunsInThem(t *testing.T) {
	lab, group, process := occupied(t)
	if err := lab.Clear(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(group.Path); !os.IsNotExist(err) {
		t.Errorf("the cgroup is still there: %v", err)
	}
	if process.Wait() == nil {
		t.Error("the process in the cgroup ended by itself")
	}
	if err := lab.Close(); err != nil {
		t.Error(err)
	}
}

// Cgroups of a lab without a directory are removed, unless they contain a process.
func TestSweepOrphanCgroups(t *testing.T) {
	lab, group, process := occupied(t)
	swept := func() bool {
		removed, err := sweepOrphanCgroups(0)
		if err != nil {
			t.Fatal(err)
		}
		return slices.Contains(removed, filepath.Base(group.Path))
	}
	if swept() {
		t.Error("removed while its lab exists")
	}
	if err := os.RemoveAll(lab.Dir); err != nil {
		t.Fatal(err)
	}
	if swept() {
		t.Error("removed while a process is in it")
	}
	_ = process.Stop(0)
	if !swept() {
		t.Error("not removed when nothing belongs to it any more")
	}
	if err := lab.lock.Close(); err != nil {
		t.Error(err)
	}
}
