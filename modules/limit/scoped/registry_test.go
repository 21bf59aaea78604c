// SPDX-License-Identifier: Apache-2.0

package scoped

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/direction"
	"weir/kernel/testutil"
)

// A command is listed with its counters while it is limited, for root only.
func TestRunsAreListed(t *testing.T) {
	testutil.NeedRoot(t)
	dir := t.TempDir()
	t.Setenv("WEIR_RUN_DIR", dir)
	if all, err := List(); err != nil || len(all) != 0 {
		t.Fatalf("before: %+v, %v", all, err)
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := Run(ctx, Command{Args: []string{"sleep", "600"}, Limits: capped()})
		ended <- err
	}()
	var all []Running
	testutil.Eventually(t, 30*time.Second, "the run is listed", func() bool {
		all, _ = List()
		return len(all) == 1
	})
	if one := all[0]; one.PID != os.Getpid() || strings.Join(one.Command, " ") != "sleep 600" || one.Limits[direction.Egress] != 1e6 || one.Counted[direction.Egress] == nil {
		t.Errorf("listed: %+v", one)
	}
	info, err := os.Stat(all[0].path())
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("its file: %v, %v", info, err)
	}
	end()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	rest, _ := filepath.Glob(filepath.Join(dir, "run", "*"))
	if all, err := List(); err != nil || len(all)+len(rest) != 0 {
		t.Errorf("after: %+v, %v, %v", all, rest, err)
	}
}

func TestACommandOfAnotherUser(t *testing.T) {
	testutil.NeedRoot(t)
	nobody, err := user.LookupId("65534")
	if err != nil {
		testutil.Need(t, "user 65534", err)
	}
	got, err := Run(t.Context(), Command{Args: []string{"sh", "-c", `test "$(id -u):$(id -ru):$USER" = "65534:65534:` + nobody.Username + `"`}, Limits: capped(), User: nobody})
	if err != nil || got.Status != 0 {
		t.Errorf("status %d, %v", got.Status, err)
	}
}

// A running process is limited with its children, and returns to its own cgroup in the end.
func TestAProcessThatRunsAlready(t *testing.T) {
	testutil.NeedRoot(t)
	t.Setenv("WEIR_RUN_DIR", t.TempDir())
	home := testutil.Cgroup(t)
	shell := exec.Command("sh", "-c", "sleep 600 & echo $!; wait")
	out, err := shell.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	inner, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	pids := []int{shell.Process.Pid, inner}
	defer func() {
		if child, err := os.FindProcess(inner); err == nil {
			_ = child.Kill()
		}
		_ = shell.Wait()
	}()
	for _, pid := range pids {
		if err := home.Add(pid); err != nil {
			t.Fatal(err)
		}
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := Run(ctx, Command{PID: pids[0], Limits: capped()})
		ended <- err
	}()
	in := func(of string) bool {
		for _, pid := range pids {
			if now, err := cgroupOf(pid); err != nil || !strings.Contains(now.Path, of) {
				return false
			}
		}
		return true
	}
	testutil.Eventually(t, 30*time.Second, "both are under the limit", func() bool { return in(prefix) })
	end()
	if err := <-ended; err != nil || !in(filepath.Base(home.Path)) {
		t.Errorf("ended with %v; back in their cgroup: %v", err, in(filepath.Base(home.Path)))
	}
	if _, err := Run(t.Context(), Command{PID: os.Getpid(), Limits: capped()}); err == nil {
		t.Error("this process limits itself")
	}
}
