// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/core/selector/runtimes"
	"weir/core/selector/runtimes/fake"
	"weir/kernel/testutil"
)

// The daemon follows the events of a runtime: a container that is created, started, and replaced
// under its name; and the limit outlasts a restart of the runtime.
func TestContainersAreFollowed(t *testing.T) {
	e := setup(t)
	docker := fake.New(t, "docker", "systemd")
	e.Runtimes = []runtimes.Runtime{docker.Runtime}
	one, two := strings.Repeat("1", 64), strings.Repeat("2", 64)
	run := func(id string) int {
		t.Helper()
		pid, _ := fake.Process(t, filepath.Join(e.CgroupRoot, "system.slice", "docker-"+id+".scope"))
		return pid
	}
	start(t, service(t, e, "version: 1\nscopes: {web: {container: web, egress: {rate: 5Mbit, mode: police}}}\n"))
	becomes(t, e, "web", "waiting: there is no container web")

	docker.Set(fake.Container{ID: one, Names: []string{"/web"}, State: "created"})
	becomes(t, e, "web", "waiting: container web does not run")
	testutil.Eventually(t, patience, "the future cgroup", func() bool {
		return strings.HasSuffix(activeScope(t, e, "web").Binding.Path, "/system.slice/docker-"+one+".scope")
	})
	docker.Set(fake.Container{ID: one, Names: []string{"/web"}, State: "running", PID: run(one)})
	first := becomes(t, e, "web", "enforced")

	docker.Set(fake.Container{ID: two, Names: []string{"/web"}, State: "running", PID: run(two)})
	testutil.Eventually(t, patience, "the second container", func() bool {
		return becomes(t, e, "web", "enforced") != first
	})
	second := becomes(t, e, "web", "enforced")

	docker.Stop()
	if _, err := e.Rebind(); err != nil {
		t.Fatal(err)
	}
	if now, state := activeScope(t, e, "web").Binding.Number, states(t, e)["web"]; now != second || state != "enforced" {
		t.Errorf("without the runtime: %s, bound to %d, want %d", state, now, second)
	}
	docker.Start(t)
	docker.Set(fake.Container{ID: strings.Repeat("3", 64), Names: []string{"/web"}, State: "exited"})
	becomes(t, e, "web", "waiting: container web does not run")
}

// A slow runtime may take seconds in each step of the loop: the watchdog gets a heartbeat between
// all steps.
func TestTheWatchdogIsServedBetweenSlowSteps(t *testing.T) {
	e := setup(t)
	docker := fake.New(t, "docker", "systemd")
	e.Runtimes = []runtimes.Runtime{docker.Runtime}
	path := filepath.Join(t.TempDir(), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = manager.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "3600000000")
	alive := func() bool { // since the last call
		message, found := make([]byte, 4096), false
		for {
			if err := manager.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
				t.Error(err)
			}
			n, err := manager.Read(message)
			if err != nil {
				return found
			}
			found = found || string(message[:n]) == "WATCHDOG=1"
		}
	}
	s := service(t, e, "version: 1\nscopes: {web: {container: web, egress: {rate: 5Mbit, mode: police}}}\n")
	reload := make(chan os.Signal)
	s.Reload = reload
	start(t, s)
	testutil.Eventually(t, patience, "the first heartbeat", alive)
	steps := make(chan bool)
	docker.Before(func(request *http.Request) {
		if request.URL.Path == "/containers/json" {
			select {
			case steps <- alive():
			case <-t.Context().Done():
			}
		}
	})
	for step := range 9 {
		if step%3 == 0 { // apply, look for similar names, bind
			go func() {
				select {
				case reload <- syscall.SIGHUP:
				case <-t.Context().Done():
				}
			}()
		}
		select {
		case served := <-steps:
			if !served && step > 0 { // its heartbeat may have come before the test counts
				t.Errorf("no heartbeat before step %d", step)
			}
		case <-time.After(patience):
			t.Fatalf("step %d has not begun", step)
		}
	}
	docker.Before(nil)
}
