// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/kernel/cgroup"
	"weir/kernel/testutil"
)

// freeze freezes a cgroup of the engine for the duration of the test.
func freeze(t *testing.T, path string) {
	t.Helper()
	file := filepath.Join(path, "cgroup.freeze")
	if _, err := os.Stat(file); err != nil {
		testutil.Need(t, "cgroup.freeze", err)
	}
	if err := os.WriteFile(file, []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.WriteFile(file, []byte("0"), 0) })
	testutil.Eventually(t, 5*time.Second, "the cgroup to freeze", cgroup.Cgroup{Path: path}.Frozen)
}

// A user who freezes the cgroup of a scope does not block the proof: the result of the scope is
// unknown, and the other scopes are tested.
func TestAFrozenScopeKeepsNobodyWaiting(t *testing.T) {
	e := setup(t)
	testutil.Snapshot(t)
	stopped := false
	result := run(t, e, Options{Report: func(what string, _ time.Duration) {
		if !stopped && strings.HasPrefix(what, "a, ") {
			freeze(t, filepath.Join(e.CgroupRoot, "a"))
			stopped = true
		}
	}}, "a: {cgroup: /a, egress: {rate: 20Mbit, mode: police}}", "b: {cgroup: /b, egress: {rate: 20Mbit, mode: police}}")
	for _, row := range result.Rows {
		if row.Path.IPv6 && IPv6() != nil || strings.Contains(row.Reason, "the path carries") {
			continue
		}
		told := len(row.Samples) == 0 && row.Verdict == CannotSay && strings.Contains(row.Reason, "/a are frozen")
		if told != (row.Scope == "a") {
			t.Errorf("%s %s: %d samples, %s: %s", row.Scope, row.Path, len(row.Samples), row.Verdict, row.Reason)
		}
	}
	if b := find(t, result, "a", "super-packets"); b.State != Unknown {
		t.Errorf("super-packets of a: %s because %s", b.State, b.Why)
	}
}

// A station in a frozen cgroup ends with the run.
func TestAStationThatIsFrozenEndsWithTheRun(t *testing.T) {
	e := setup(t)
	testutil.Snapshot(t)
	apply(t, e, "a: {cgroup: /a, egress: {rate: 20Mbit, mode: police}}")
	ctx, cancel := context.WithCancel(t.Context())
	group := filepath.Join(e.CgroupRoot, "a")
	go func() {
		defer cancel()
		for ctx.Err() == nil {
			inside, _ := filepath.Glob(filepath.Join(group, cgroupPrefix+"*"))
			if len(inside) == 0 {
				continue
			}
			if pids, err := (cgroup.Cgroup{Path: inside[0]}).Processes(); err == nil && len(pids) > 0 {
				_ = os.WriteFile(filepath.Join(group, "cgroup.freeze"), []byte("1"), 0)
				return
			}
		}
	}()
	t.Cleanup(func() { _ = os.WriteFile(filepath.Join(group, "cgroup.freeze"), []byte("0"), 0) })
	err := inNamespace(t, func() error {
		result, err := Run(ctx, Options{Engine: e, Duration: 20 * time.Second, Repetitions: 1})
		if err == nil && !result.Stopped {
			t.Error("the result does not say that it was stopped")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Sweep removes the remains of a killed run in a frozen cgroup. A foreign cgroup of the same name
// stays and is no error.
func TestSweepEndsFrozenProcesses(t *testing.T) {
	testutil.NeedRoot(t)
	e := setup(t)
	var left [2]string
	for i, scope := range []string{"a", "b"} {
		left[i] = filepath.Join(e.CgroupRoot, scope, fmt.Sprint(cgroupPrefix, 4194999))
		if err := os.Mkdir(left[i], 0o755); err != nil {
			t.Fatal(err)
		}
		sleeper := exec.Command("sleep", "infinity")
		sleeper.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := sleeper.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- sleeper.Wait() }()
		t.Cleanup(func() {
			_ = sleeper.Process.Kill()
			<-ended
		})
		if err := (cgroup.Cgroup{Path: left[i]}).Add(sleeper.Process.Pid); err != nil {
			t.Fatal(err)
		}
		freeze(t, filepath.Dir(left[i]))
	}
	if err := os.Chown(left[1], 4711, 4711); err != nil {
		t.Fatal(err)
	}
	if err := Sweep(e.CgroupRoot); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left[0]); !os.IsNotExist(err) {
		t.Errorf("what was left: %v", err)
	}
	if pids, err := (cgroup.Cgroup{Path: left[1]}).Processes(); err != nil || len(pids) != 1 {
		t.Errorf("somebody else's: processes %v, %v", pids, err)
	}
}
