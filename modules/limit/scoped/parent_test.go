// SPDX-License-Identifier: Apache-2.0

package scoped

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/child"
	"weir/internal/fault"
	"weir/kernel/cgroup"
	"weir/kernel/testutil"
)

// runPart is the part of the test binary that runs a shell command under a limit (TestMain).
const runPart = "run"

// inCgroup runs a shell command under a limit from inside a cgroup and returns its output.
func inCgroup(t *testing.T, group cgroup.Cgroup, script string) string {
	t.Helper()
	folder, err := os.Open(group.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = folder.Close() }()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), child.Environment(runPart)...)
	cmd.Stdin = strings.NewReader(script + "\n")
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(folder.Fd())}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// A command is below the cgroup of its caller, so that the limits of its unit still apply; so is a
// command of a command.
func TestRunStaysBelowTheCallersCgroup(t *testing.T) {
	testutil.NeedRoot(t)
	unit := testutil.Cgroup(t)
	base := regexp.QuoteMeta(filepath.Base(unit.Path))
	if got := inCgroup(t, unit, "grep ^0: /proc/self/cgroup"); !regexp.MustCompile(base + "/weir-run-[0-9a-f]+\n$").MatchString(got) {
		t.Errorf("the command is in %s", got)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	inner := strings.Join(child.Environment(runPart), " ")
	got := inCgroup(t, unit, "echo 'grep ^0: /proc/self/cgroup' | env "+inner+" "+self)
	if !regexp.MustCompile(base + "/weir-run-[0-9a-f]+/weir-run-[0-9a-f]+\n$").MatchString(got) {
		t.Errorf("the command of a command is in %s", got)
	}
	left, err := unit.Tree()
	if err != nil || len(left) != 1 {
		t.Errorf("cgroups are left: %v, %v", left, err)
	}
}

// A running process stays below its cgroup, with the descendants in it. Descendants in other
// cgroups stay there, and are reported.
func TestRunningProcessStaysBelowItsCgroup(t *testing.T) {
	testutil.NeedRoot(t)
	unit, other := testutil.Cgroup(t), testutil.Cgroup(t)
	process := exec.Command("sh", "-c", "sleep 600 & sleep 600 & wait")
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = process.Wait() }()
	defer func() { _ = process.Process.Kill() }()
	pid := process.Process.Pid
	if err := unit.Add(pid); err != nil {
		t.Fatal(err)
	}
	var children []int
	testutil.Eventually(t, 30*time.Second, "the children run", func() bool {
		children = descendants(pid)[1:]
		return len(children) == 2
	})
	defer func() { _ = syscall.Kill(children[0], syscall.SIGKILL) }()
	defer func() { _ = syscall.Kill(children[1], syscall.SIGKILL) }()
	for _, err := range []error{unit.Add(children[0]), other.Add(children[1])} {
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, end := context.WithCancel(t.Context())
	said := make(chan string, 16)
	ended := make(chan error)
	go func() {
		_, err := Run(ctx, Command{PID: pid, Limits: capped(), Notify: besidesKeeping(func(text string) { said <- text })})
		ended <- err
	}()
	if got := <-said; !strings.Contains(got, "1 process of") || !strings.Contains(got, other.Path) {
		t.Errorf("said %q", got)
	}
	for i, want := range []cgroup.Cgroup{unit, other} {
		now, err := cgroup.Of(children[i])
		if err != nil || i == 0 && filepath.Dir(now.Path) != want.Path || i == 1 && now != want {
			t.Errorf("child %d is in %s, %v", i, now.Path, err)
		}
	}
	end()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if now, err := cgroup.Of(pid); err != nil || now != unit {
		t.Errorf("afterwards the process is in %s, %v", now.Path, err)
	}
}

// Cgroups in which no process can move to a new cgroup are rejected, with advice.
func TestUnfitParentsAreRejected(t *testing.T) {
	for levels, want := range map[int]bool{0: false, 30: false, 31: true} {
		if got := tooDeep("/sys/fs/cgroup"+strings.Repeat("/a", levels), "/sys/fs/cgroup"); got != want {
			t.Errorf("%d levels below the root: %t", levels, got)
		}
	}
	testutil.NeedRoot(t)
	group := testutil.Cgroup(t)
	if err := CanHold(group); err != nil {
		t.Errorf("a cgroup of type domain: %v", err)
	}
	if err := os.WriteFile(filepath.Join(group.Path, "cgroup.type"), []byte("threaded"), 0); err != nil {
		t.Fatal(err)
	}
	if err := CanHold(group); fault.Of(err) != fault.Usage || !strings.Contains(err.Error(), "threaded") {
		t.Errorf("a threaded cgroup: %v", err)
	}
}

// Processes that move to other cgroups are reported, once per cgroup.
func TestProcessesThatLeaveAreReported(t *testing.T) {
	testutil.NeedRoot(t)
	other := testutil.Cgroup(t)
	procs := other.Path + "/cgroup.procs"
	said := make(chan string, 16)
	ended := make(chan error)
	script := "sleep 600 & echo $! > " + procs + "; sleep 600 & echo $! > " + procs + "; wait"
	go func() {
		_, err := Run(t.Context(), Command{Args: []string{"sh", "-c", script}, Limits: capped(), Notify: besidesKeeping(func(text string) { said <- text })})
		ended <- err
	}()
	if got := <-said; !strings.Contains(got, other.Path) || !strings.Contains(got, "not limited") {
		t.Errorf("said %q", got)
	}
	testutil.Eventually(t, 30*time.Second, "both have moved", func() bool {
		pids, err := other.Processes()
		return err == nil && len(pids) == 2
	})
	pids, err := other.Processes()
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if len(said) > 0 {
		t.Errorf("said %q too", <-said)
	}
}

// An inherited network socket is reported: it belongs to the cgroup that opened it.
func TestInheritedSocketsAreReported(t *testing.T) {
	for name, family := range map[string]int{"IPv4": syscall.AF_INET, "IPv6": syscall.AF_INET6, "Unix": syscall.AF_UNIX} {
		fd, err := syscall.Socket(family, syscall.SOCK_STREAM, 0) // without CLOEXEC
		if err != nil {
			t.Fatal(err)
		}
		var said []string
		Command{Args: []string{"sshd"}, Limits: capped(), Notify: func(text string) { said = append(said, text) }}.reportInherited()
		_ = syscall.Close(fd)
		want := 1
		if name == "Unix" {
			want = 0
		}
		if len(said) != want || want == 1 && !strings.Contains(said[0], "sshd inherits a network socket, which is not limited") {
			t.Errorf("%s: %q", name, said)
		}
	}
}
