// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weir/core/selector/runtimes"
	"weir/core/selector/runtimes/fake"
	"weir/kernel/cgroup"
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
		group, err := cgroup.Create(filepath.Join(e.CgroupRoot, "system.slice"), "docker-"+id+".scope")
		if err != nil {
			t.Fatal(err)
		}
		process := exec.Command("sleep", "600")
		if err := process.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = process.Process.Kill()
			_ = process.Wait()
		})
		if err := group.Add(process.Process.Pid); err != nil {
			t.Fatal(err)
		}
		return process.Process.Pid
	}
	if _, err := cgroup.Create(e.CgroupRoot, "system.slice"); err != nil {
		t.Fatal(err)
	}
	start(t, service(t, e, "version: 1\nscopes: {web: {container: web, egress: 5Mbit}}\n"))
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
