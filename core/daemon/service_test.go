// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"weir/core/engine"
	"weir/core/module"

	"golang.org/x/sys/unix"

	"weir/internal/child"
	"weir/internal/fault"
	"weir/kernel/netns"
	"weir/kernel/testutil"
)

const patience = time.Minute

// service returns a service with a resync interval of an hour, so that only events make it act.
func service(t *testing.T, e *engine.Engine, text string) *Service {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policy.yaml")
	testutil.Write(t, file, text)
	return &Service{Engine: e, Policy: file, Look: time.Hour, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
}

// start runs the service until the end of the test, or until stop is called.
func start(t *testing.T, s *Service) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stopped := false
	stop = func() {
		if cancel(); stopped {
			return
		}
		stopped = true
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	testutil.Eventually(t, patience, "the start of the service", func() bool {
		status, err := s.Engine.Status()
		return err == nil && status.Enforced && status.Controller != nil && status.Controller.Running
	})
	return stop
}

// becomes waits until the scope's state has a prefix and returns the number of its binding. For
// "enforced" it also waits until the stored state has the current binding.
func becomes(t *testing.T, e *engine.Engine, scope, state string) (number uint64) {
	t.Helper()
	testutil.Eventually(t, patience, "scope "+scope+" "+state, func() bool {
		status, err := e.Status()
		if err != nil {
			t.Fatal(err)
		}
		return !status.Interrupted && !status.Underway && strings.HasPrefix(states(t, e)[scope], state) && (state != "enforced" || noted(t, e, scope))
	})
	return activeScope(t, e, scope).Binding.Number
}

// activeScope returns the stored state of a scope.
func activeScope(t *testing.T, e *engine.Engine, scope string) module.Bound {
	t.Helper()
	_, states, err := e.Active()
	if err != nil {
		t.Fatal(err)
	}
	for _, state := range states {
		if b, found := state.ByName()[scope]; found {
			return b
		}
	}
	t.Fatalf("no scope %s", scope)
	return module.Bound{}
}

// noted reports whether the stored state has the scope's current binding. The kernel may rebind a
// recreated cgroup before the daemon stores that.
func noted(t *testing.T, e *engine.Engine, scope string) bool {
	t.Helper()
	h := activeScope(t, e, scope)
	now, err := e.Lookup().Bind(h.Selector)
	if err != nil {
		t.Fatal(err)
	}
	return h.Binding.Missing == "" && h.Binding.Key == now.Key
}

const oneScope = "version: 1\nscopes:\n  a: {cgroup: /a, egress: {rate: 1Mbit, mode: police}}\n"

func TestACgroupThatComesBackIsLimitedUnderItsNewID(t *testing.T) {
	e := setup(t)
	path := testutil.Mkdir(t, e.CgroupRoot, "a")
	start(t, service(t, e, oneScope))
	before := becomes(t, e, "a", "enforced")
	testutil.Remove(t, path)
	becomes(t, e, "a", "waiting: there is no cgroup")
	testutil.Mkdir(t, path)
	// The kernel may rebind the scope before the daemon stores the new id.
	testutil.Eventually(t, patience, "another id", func() bool { return becomes(t, e, "a", "enforced") != before })
}

func TestACgroupIsFoundWhoseParentsComeLater(t *testing.T) {
	e := setup(t)
	start(t, service(t, e, "version: 1\nscopes:\n  deep: {cgroup: /x/y/z, egress: {rate: 1Mbit, mode: police}}\n"))
	becomes(t, e, "deep", "waiting")
	parent := testutil.Mkdir(t, e.CgroupRoot, "x")
	middle := testutil.Mkdir(t, parent, "y")
	leaf := testutil.Mkdir(t, middle, "z")
	becomes(t, e, "deep", "enforced")
	testutil.Remove(t, leaf)
	testutil.Remove(t, middle)
	becomes(t, e, "deep", "waiting")
	testutil.Mkdir(t, middle)
	testutil.Mkdir(t, leaf)
	becomes(t, e, "deep", "enforced")
	testutil.Remove(t, leaf)
	testutil.Remove(t, middle)
}

func TestAUnitThatRestartsIsLimitedAgain(t *testing.T) {
	e := setup(t)
	start(t, service(t, e, "version: 1\nscopes:\n  job: {unit: job.service, egress: {rate: 1Mbit, mode: police}}\n"))
	becomes(t, e, "job", "waiting: unit job.service has no cgroup")
	slice := testutil.Mkdir(t, e.CgroupRoot, "batch.slice")
	unit := testutil.Mkdir(t, slice, "job.service")
	before := becomes(t, e, "job", "enforced")
	testutil.Remove(t, unit)
	becomes(t, e, "job", "waiting")
	testutil.Mkdir(t, unit)
	if after := becomes(t, e, "job", "enforced"); after == before {
		t.Errorf("the restarted unit has the old id %d", after)
	}
	testutil.Remove(t, unit)
}

// egress returns the active egress rate of scope a.
func egress(t *testing.T, e *engine.Engine) uint64 {
	t.Helper()
	status, err := e.Status()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range status.Modules {
		for _, row := range r.Rows {
			if row.Scope == "a" && row.Part == "egress" {
				return uint64(row.Values["limit"].Number)
			}
		}
	}
	return 0
}

func trouble(t *testing.T, e *engine.Engine) string {
	t.Helper()
	c, err := e.Controller()
	if err != nil || c == nil {
		t.Fatal(c, err)
	}
	return c.Problem
}

func TestABadEditKeepsTheOldLimitsAndIsReported(t *testing.T) {
	e := setup(t)
	testutil.Mkdir(t, e.CgroupRoot, "a")
	s := service(t, e, oneScope)
	stop := start(t, s)
	testutil.Write(t, s.Policy, strings.Replace(oneScope, "egress", "egres", 1))
	testutil.Eventually(t, patience, "the report", func() bool { return strings.Contains(trouble(t, e), `unknown key "egres"`) })
	if rate := egress(t, e); rate != 1e6 || states(t, e)["a"] != "enforced" {
		t.Errorf("after a bad edit: %d bit/s, %s", rate, states(t, e)["a"])
	}
	// An editor writes a new file and renames it over the old one.
	testutil.Write(t, s.Policy+".new", strings.Replace(oneScope, "1Mbit", "3Mbit", 1))
	if err := os.Rename(s.Policy+".new", s.Policy); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, patience, "the new rate", func() bool { return egress(t, e) == 3e6 && trouble(t, e) == "" })
	testutil.Write(t, s.Policy, strings.Replace(oneScope, "egress", "egres", 1))
	testutil.Eventually(t, patience, "the report", func() bool { return trouble(t, e) != "" })
	stop()
	if text := trouble(t, e); text != "" {
		t.Errorf("a stopped service reports: %s", text)
	}
}

func TestAResyncFindsAnEditWithoutEvent(t *testing.T) {
	e := setup(t)
	s := service(t, e, oneScope)
	s.Look = 20 * time.Millisecond
	// The service watches the link's folder, and the file changes in another.
	link := filepath.Join(t.TempDir(), "link.yaml")
	if err := os.Symlink(s.Policy, link); err != nil {
		t.Fatal(err)
	}
	file := s.Policy
	s.Policy = link
	start(t, s)
	testutil.Write(t, file, strings.Replace(oneScope, "1Mbit", "4Mbit", 1))
	testutil.Eventually(t, patience, "the new rate", func() bool { return egress(t, e) == 4e6 })
	testutil.Remove(t, file)
	testutil.Eventually(t, patience, "the report", func() bool { return strings.Contains(trouble(t, e), "no such file") })
	if rate := egress(t, e); rate != 4e6 {
		t.Errorf("without its file the policy has %d bit/s, want the former policy", rate)
	}
}

func TestWhatIsReleasedByHandStaysReleasedUntilTheFileChanges(t *testing.T) {
	e := setup(t)
	s := service(t, e, oneScope)
	reload := make(chan os.Signal, 1)
	s.Reload, s.Look = reload, 20*time.Millisecond
	start(t, s)
	if released, err := e.Release(); err != nil || !released {
		t.Fatalf("released: %t, %v", released, err)
	}
	testutil.Mkdir(t, e.CgroupRoot, "a")
	if out, err := e.Rebind(); err != nil || out.Changed {
		t.Errorf("bound anew after a release: %+v, %v", out, err)
	}
	if _, err := os.Stat(e.PinDir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("limits are back after a release: %v", err)
	}
	reload <- unix.SIGHUP
	becomes(t, e, "a", "enforced")
}

func TestTwoControllersAreOneTooMany(t *testing.T) {
	e := setup(t)
	s := service(t, e, oneScope)
	start(t, s)
	err := (&Service{Engine: e, Policy: s.Policy, Log: s.Log}).Run(context.Background())
	if fault.Of(err) != fault.Failed || fault.Advice(err) == "" {
		t.Errorf("the second controller: %v", err)
	}
	if c, err := e.Controller(); err != nil || !c.Running {
		t.Errorf("the first controller after it: %+v, %v", c, err)
	}
}

func TestAWrongStartIsAnErrorAndChangesNothing(t *testing.T) {
	e := setup(t)
	apply(t, e, limited("old", 1e6))
	beyond := service(t, e, oneScope)
	beyond.Metrics = "0.0.0.0:0"
	for _, s := range []*Service{service(t, e, "version: 7"), beyond} {
		if err := s.Run(context.Background()); fault.Of(err) != fault.Usage {
			t.Errorf("got %v, want a usage error", err)
		}
	}
	if c, err := e.Controller(); err != nil || c != nil {
		t.Errorf("a controller that never worked is remembered: %+v, %v", c, err)
	}
	if _, held := states(t, e)["old"]; !held {
		t.Error("the former policy is gone")
	}
}

// follower is the input of the child process "follow".
type follower struct{ State, Pins, Root, Policy string }

func followPart(in io.Reader, _ io.Writer) error {
	var f follower
	if err := json.NewDecoder(in).Decode(&f); err != nil {
		return err
	}
	s := &Service{Engine: engineAt(f.State, f.Pins, f.Root), Policy: f.Policy, Look: time.Hour, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	return s.Run(context.Background())
}

func TestAKilledControllerLeavesLimitsActive(t *testing.T) {
	e := setup(t)
	testutil.Mkdir(t, e.CgroupRoot, "a")
	s := service(t, e, oneScope)
	process, err := child.Start(context.Background(), "follow", t.Output())
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now().Add(-time.Second)
	if err := json.NewEncoder(process.In).Encode(follower{e.StateDir, e.PinDir, e.CgroupRoot, s.Policy}); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, patience, "the child's start", func() bool {
		c, err := e.Controller()
		return err == nil && c != nil && c.Running && c.PID == process.PID() && states(t, e)["a"] == "enforced"
	})
	if err := unix.Kill(process.PID(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = process.Wait()
	status, err := e.Status()
	if err != nil {
		t.Fatal(err)
	}
	c := status.Controller
	if !status.Enforced || c == nil || c.Running || c.LastSeen.Before(began) || c.LastSeen.After(time.Now()) {
		t.Errorf("after the kill: enforced %t, controller %+v", status.Enforced, c)
	}
	start(t, s)
	// The new controller locks the lease before it writes its process id into it.
	var again *engine.Controller
	testutil.Eventually(t, patience, "the next controller's announcement", func() bool {
		again, err = e.Controller()
		return err == nil && again.PID == os.Getpid()
	})
	if !again.Running || !again.Before.Equal(c.LastSeen) {
		t.Errorf("the next controller: %+v (%v), want %s as the last heartbeat of the one before", again, err, c.LastSeen)
	}
}

func TestNotificationsOfTheServiceManager(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = manager.Close() })
	if err := manager.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "20000")
	next := func() string {
		message := make([]byte, 4096)
		n, err := manager.Read(message)
		if err != nil {
			t.Fatal(err)
		}
		return string(message[:n])
	}
	e := setup(t)
	stop := start(t, service(t, e, oneScope))
	for i, want := range []string{"READY=1", "WATCHDOG=1"} {
		if got := next(); got != want {
			t.Errorf("message %d is %q, want %q", i, got, want)
		}
	}
	stop()
	for message := ""; message != "STOPPING=1"; {
		message = next()
	}
	if !strings.HasPrefix(fmt.Sprint(states(t, e)["a"]), "waiting") {
		t.Error("the policy ended with the service")
	}
}

// The file changes while the first apply lists the sockets of the host.
func TestAnEditDuringTheFirstApplyIsFollowed(t *testing.T) {
	e := setup(t)
	s := service(t, e, oneScope)
	edited := false
	e.Sockets = func(func(*netns.Namespace) error) error {
		if !edited {
			edited = true
			testutil.Write(t, s.Policy, oneScope+"  b: {user: 4711, ingress: {rate: 2Mbit, mode: police}}\n")
		}
		return nil
	}
	start(t, s)
	becomes(t, e, "b", "enforced")
}
