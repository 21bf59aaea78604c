// SPDX-License-Identifier: Apache-2.0

package lend

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/direction"
	"weir/internal/fault"
	"weir/internal/units"
	"weir/kernel/cgroup"
	"weir/kernel/testutil"
	"weir/modules/limit/scoped"
)

// treated counts the currently marked cgroups.
var treated atomic.Int32

type mark struct{}

func (mark) Close() error {
	treated.Add(-1)
	return nil
}

func newStand(t *testing.T) *stand {
	t.Helper()
	return newStandFor(t, 3, 5)
}

func newStandFor(t *testing.T, perUser, most int) *stand {
	t.Helper()
	testutil.NeedRoot(t)
	dir, err := os.MkdirTemp("", "weir-lend-") // accessible to users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("WEIR_RUN_DIR", dir)
	s := &stand{T: t, home: testutil.Cgroup(t)}
	s.lender = &Lender{Socket: scoped.Socket(), Group: Everyone, PerUser: perUser, Max: most, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Class: func(name string) (*Class, error) {
		if name != "lbe" {
			return nil, fault.New(fault.Permission, "", "not lent")
		}
		one := func(string) (io.Closer, error) {
			treated.Add(1)
			return mark{}, nil
		}
		return &Class{Treatments: []scoped.Treatment{one}, Done: func() any { return map[string]int{"packets": 7} }}, nil
	}}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.lender.Run(ctx) }()
	t.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	testutil.Eventually(t, 10*time.Second, "the lender listens", func() bool {
		_, err := os.Stat(s.lender.Socket)
		return err == nil
	})
	return s
}

// lent returns the cgroups created below the users' cgroup.
func (s *stand) lent() []string {
	s.Helper()
	all, err := filepath.Glob(filepath.Join(s.home.Path, "weir-run-*"))
	if err != nil {
		s.Fatal(err)
	}
	return all
}

// gone waits until no cgroup and no registry entry is left.
func (s *stand) gone() {
	s.Helper()
	var left string
	defer func() {
		if s.Failed() {
			s.Logf("left: %s", left)
		}
	}()
	testutil.Eventually(s.T, 30*time.Second, "everything that was lent has ended", func() bool {
		files, _ := filepath.Glob(filepath.Join(os.Getenv("WEIR_RUN_DIR"), "run", "*"))
		pids, _ := s.home.AllProcesses()
		left = fmt.Sprintf("cgroups %v, files %v, %d treated; processes in all of them %v", s.lent(), files, treated.Load(), pids)
		return len(s.lent())+len(files) == 0 && treated.Load() == 0
	})
}

// kill ends a process of a user.
func (s *stand) kill(pid int) {
	s.Helper()
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		s.Fatal(err)
	}
}

func TestAProcessIsMovedBelowItsOwnCgroup(t *testing.T) {
	s := newStand(t)
	u := newUser(t, alice, s.home, s.lender.Socket)
	got := u.do(deed{Of: "own", Ask: scoped.Request{Class: "lbe", Command: []string{"rsync", "\x1b[31mred"}}})
	if got.Answer.Rejection != nil || filepath.Dir(got.Group) != s.home.Path || treated.Load() != 1 {
		t.Fatalf("%+v, in %s, %d treated", got.Answer.Rejection, got.Group, treated.Load())
	}
	if info, err := os.Stat(filepath.Join(got.Group, "cgroup.procs")); err != nil || info.Sys().(*syscall.Stat_t).Uid != 0 {
		t.Errorf("permission to move processes there: %v, %v", info, err)
	}
	all, err := scoped.List()
	if err != nil || len(all) != 1 || *all[0].User != alice || all[0].Command[1] != "\ufffd[31mred" || all[0].PID != u.process.PID() {
		t.Errorf("listed: %+v, %v", all, err)
	}
	s.kill(got.PID)
	if last := u.do(deed{Done: true}); string(last.Answer.Class) != `{"packets":7}` {
		t.Errorf("in the end: %s, %s", last.Answer.Class, last.Error)
	}
	s.gone()
}

// Processes of other users are not moved, and neither are processes that could change before the
// move.
func TestOthersProcessesAreNotMoved(t *testing.T) {
	s := newStand(t)
	u, other := newUser(t, alice, s.home, s.lender.Socket), newUser(t, bob, s.home, s.lender.Socket)
	theirs := other.borrows()
	for _, test := range []struct {
		of   string
		pid  int
		want string
	}{
		{"process", theirs.PID, "another user"},
		{"process", 1, "another user"},
		{"folder", theirs.PID, "ended, or is in a PID namespace"},
		{"file", 0, "has ended"},
		{"none", 0, "no process descriptor"},
		{"several", 0, "or several"},
		{"itself", 0, "several threads"},
		{"ended", 0, "has ended"},
		{"zombie", 0, "has ended"},
		{"traced", 0, "stop process"},
		{"namespace", 0, "different network namespaces"},
	} {
		t.Run(test.of, func(t *testing.T) {
			got := u.do(deed{Of: test.of, PID: test.pid, Ask: scoped.Request{Class: "lbe"}})
			if test.of == "namespace" && strings.Contains(got.Error, "EOF") {
				testutil.Need(t, "namespaces of users", errors.New(got.Error))
			}
			if got.Error != "" || got.Answer.Rejection == nil || !strings.Contains(got.Answer.Rejection.Error, test.want) {
				t.Errorf("%q, %+v, want %q", got.Error, got.Answer.Rejection, test.want)
			}
			if test.pid == 0 && got.Group != "" && got.Group != s.home.Path {
				t.Errorf("the process is in %s", got.Group)
			}
			u.do(deed{Close: true})
		})
	}
	if now, err := cgroup.Of(theirs.PID); err != nil || now.Path != theirs.Group {
		t.Errorf("the other user's process is in %s, %v; it was in %s", now.Path, err, theirs.Group)
	}
	if len(s.lent()) != 1 {
		t.Errorf("cgroups: %v", s.lent())
	}
	s.kill(theirs.PID)
	other.do(deed{Close: true})
	s.gone()
}

func TestRequestsAreValidated(t *testing.T) {
	s := newStand(t)
	u := newUser(t, alice, s.home, s.lender.Socket)
	limits := func(r units.BitRate) map[direction.Direction]units.BitRate {
		return map[direction.Direction]units.BitRate{direction.Egress: r}
	}
	for name, ask := range map[string]scoped.Request{
		"another class": {Class: "ef"}, "nothing": {}, "no rate": {Limits: limits(1)}, "another format": {Format: "weir-lend/2", Class: "lbe"},
		"too long": {Class: "lbe", Command: []string{strings.Repeat("x", scoped.MaxMessage)}},
	} {
		if got := u.do(deed{Of: "own", Ask: ask}); got.Error != "" || got.Answer.Rejection == nil || got.Group != s.home.Path {
			t.Errorf("%s: %+v, %s, in %s", name, got.Answer.Rejection, got.Error, got.Group)
		}
		u.do(deed{Close: true})
	}
	s.gone()
}

// A process with a stopped job is moved and stays stopped.
func TestAStoppedProcessStaysStopped(t *testing.T) {
	s := newStand(t)
	u := newUser(t, alice, s.home, s.lender.Socket)
	got := u.do(deed{Of: "stopped", Ask: scoped.Request{Class: "lbe"}})
	if got.Answer.Rejection != nil || filepath.Dir(got.Group) != s.home.Path {
		t.Fatalf("%+v, in %s", got.Answer.Rejection, got.Group)
	}
	testutil.Eventually(t, 10*time.Second, "it is stopped, and traced by nobody", func() bool {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", got.PID))
		return strings.HasPrefix(field(text, "State"), "T (stopped)") && field(text, "TracerPid") == "0"
	})
	s.kill(got.PID)
	u.do(deed{Close: true})
	s.gone()
}

// A user cannot exceed the quota, nor use up the quota of others.
func TestQuotaOfAUser(t *testing.T) {
	s := newStand(t)
	u, other := newUser(t, alice, s.home, s.lender.Socket), newUser(t, bob, s.home, s.lender.Socket)
	var all []result
	for range s.lender.PerUser {
		all = append(all, u.borrows())
	}
	more := u.do(deed{Of: "own", Ask: scoped.Request{Class: "lbe"}})
	if more.Answer.Rejection == nil || !strings.Contains(more.Answer.Rejection.Error, "3 commands of this user") {
		t.Errorf("one more: %+v, %s", more.Answer.Rejection, more.Error)
	}
	u.do(deed{Close: true})
	if got := u.do(deed{Silent: 500}); got.Ended != 500 {
		t.Errorf("%d silent connections were ended, %s", got.Ended, got.Error)
	}
	theirs := other.borrows()
	// A process that outlives its connection continues without class, and counts until it ends.
	u.do(deed{Close: true})
	testutil.Eventually(t, 10*time.Second, "its class has ended", func() bool { return treated.Load() == 3 })
	last := all[len(all)-1]
	if now, err := cgroup.Of(last.PID); err != nil || now.Path != last.Group {
		t.Errorf("it is in %s, %v", now.Path, err)
	}
	if got := u.do(deed{Of: "own", Ask: scoped.Request{Class: "lbe"}}); got.Answer.Rejection == nil {
		t.Error("a command that was left takes no place")
	}
	u.do(deed{Close: true})
	s.kill(last.PID)
	testutil.Eventually(t, 30*time.Second, "its cgroup has gone", func() bool {
		_, err := os.Stat(last.Group)
		return err != nil
	})
	all[len(all)-1] = u.borrowsSoon()
	for _, one := range append(all, theirs) {
		s.kill(one.PID)
	}
	for range all {
		u.do(deed{Close: true})
	}
	other.do(deed{Close: true})
	s.gone()
}

// borrowsSoon retries until the quota allows the request.
func (u *user) borrowsSoon() (got result) {
	u.Helper()
	testutil.Eventually(u.T, 30*time.Second, "a place is free", func() bool {
		got = u.do(deed{Of: "own", Ask: scoped.Request{Class: "lbe"}})
		if got.Answer.Rejection != nil {
			u.do(deed{Close: true})
		}
		return got.Error == "" && got.Answer.Rejection == nil
	})
	return got
}

// A connection without a request is closed, and its quota is released.
func TestSilentConnectionsEnd(t *testing.T) {
	s := newStand(t)
	u := newUser(t, alice, s.home, s.lender.Socket)
	if got := u.do(deed{Silent: 500}); got.Ended != 500 {
		t.Errorf("%d ended, %s", got.Ended, got.Error)
	}
	s.kill(u.borrows().PID)
	u.do(deed{Close: true})
	s.gone()
}

// A process that ends during the move keeps its PID until then, so that no other process is moved
// in its place.
func TestAnEndingProcessKeepsItsPIDUntilItIsMoved(t *testing.T) {
	testutil.NeedRoot(t)
	parent := exec.Command("sh", "-c", "sleep 600 & echo $!; wait; echo reaped") // another one than the tracer
	out, err := parent.StdoutPipe()
	if err == nil {
		err = parent.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = parent.Process.Kill() }()
	said := bufio.NewReader(out)
	line, err := said.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	fds, _, err := pidfd(pid)
	if err != nil {
		t.Fatal(err)
	}
	one := process{os.NewFile(uintptr(fds[0]), "process")}
	defer func() { _ = one.Close() }()
	err = one.whileStopped(func(number int) error {
		if number != pid {
			t.Errorf("number %d, want %d", number, pid)
		}
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			return err
		}
		testutil.Eventually(t, 10*time.Second, "it has ended", func() bool {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			if err != nil {
				t.Error("its number is free")
				return true
			}
			return strings.HasPrefix(field(text, "State"), "Z")
		})
		return nil
	})
	if line, failed := said.ReadString('\n'); err != nil || failed != nil || line != "reaped\n" {
		t.Errorf("%v; %q, %v", err, line, failed)
	}
	if _, err := one.number(); err == nil {
		t.Error("it has a number after its end")
	}
}

// A signal that arrives during the stop is delivered.
func TestASignalMeanwhileIsDelivered(t *testing.T) {
	testutil.NeedRoot(t)
	fds, pid, err := started("trap 'exit 7' USR1; echo; while :; do read x; done")
	if err != nil {
		t.Fatal(err)
	}
	one := process{os.NewFile(uintptr(fds[0]), "process")}
	defer func() { _ = one.Close() }()
	if err := one.whileStopped(func(int) error { return unix.Kill(pid, unix.SIGUSR1) }); err != nil {
		t.Fatal(err)
	}
	var status unix.WaitStatus
	if _, err := unix.Wait4(pid, &status, 0, nil); err != nil || status.ExitStatus() != 7 {
		t.Errorf("ended with %v, %v", status, err)
	}
}
