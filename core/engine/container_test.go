// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/core/match"
	"weir/core/module"
	"weir/core/selector/runtimes"
	"weir/core/selector/runtimes/fake"
	"weir/kernel/cgroup"
	"weir/kernel/testutil"
)

// containerIn makes a running container of Docker.
func containerIn(t *testing.T, e *Engine, digit, app string) (c fake.Container, key match.Key) {
	t.Helper()
	id := strings.Repeat(digit, 64)
	pid, number := fake.Process(t, filepath.Join(e.CgroupRoot, "docker", id))
	return fake.Container{ID: id, Names: []string{"/c" + digit}, Labels: map[string]string{"app": app}, State: "running", PID: pid}, match.OfCgroup(number)
}

// holder returns the number of the scope that a key belongs to, if it is below 3, or -1.
func holder(t *testing.T, e *Engine, key match.Key) int {
	t.Helper()
	for _, r := range e.Modules {
		plane, rebinds := e.Plane(r).(module.Rebinder)
		if r.Name() != "limit" || !rebinds {
			continue
		}
		for index := range 3 {
			holds, err := plane.Holds(index, key)
			if err != nil {
				t.Fatal(err)
			}
			if holds {
				return index
			}
		}
	}
	return -1
}

// A container with a scope of its own keeps it when it leaves the scope of its label.
func TestAContainerInTwoScopes(t *testing.T) {
	e := setup(t)
	docker := fake.New(t, "docker", "cgroupfs")
	e.Runtimes = []runtimes.Runtime{docker.Runtime}
	one, first := containerIn(t, e, "1", "shop")
	two, second := containerIn(t, e, "2", "shop")
	docker.Set(one, two)
	if _, err := e.Apply(of(scope("shop: {container: app=shop, egress: {rate: 9Mbit, mode: police}}"), scope("mine: {container: c1, egress: {rate: 5Mbit, mode: police}}"))); err != nil {
		t.Fatal(err)
	}
	if a, b := holder(t, e, first), holder(t, e, second); a != 1 || b != 0 {
		t.Errorf("c1 is in scope %d and c2 in %d, want 1 and 0", a, b)
	}
	one.Labels["app"] = "other"
	docker.Set(one, two)
	if _, err := e.Rebind(); err != nil {
		t.Fatal(err)
	}
	if a, b := holder(t, e, first), holder(t, e, second); a != 1 || b != 0 {
		t.Errorf("without the label: c1 is in scope %d and c2 in %d, want 1 and 0", a, b)
	}
	wantStates(t, e, "after all", map[string]string{"shop": "enforced", "mine": "enforced"})
}

// The kernel binds the cgroup of a container when the runtime creates it, before its first packet.
func TestAContainerIsLimitedFromItsStart(t *testing.T) {
	testutil.Need(t, "tracing", match.CanRebind())
	e := setup(t)
	docker := fake.New(t, "docker", "cgroupfs")
	e.Runtimes = []runtimes.Runtime{docker.Runtime}
	id := strings.Repeat("7", 64)
	docker.Set(fake.Container{ID: id, Names: []string{"/web"}, State: "created"})
	if _, err := e.Apply(of(scope("web: {container: web, egress: {rate: 9Mbit, mode: police}}"))); err != nil {
		t.Fatal(err)
	}
	wantStates(t, e, "before the start", map[string]string{"web": "waiting: container web does not run"})
	path := filepath.Join(e.CgroupRoot, "docker", id)
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	number, err := cgroup.Cgroup{Path: path}.ID()
	if err != nil {
		t.Fatal(err)
	}
	if at := holder(t, e, match.OfCgroup(number)); at != 0 {
		t.Errorf("the new cgroup is in scope %d, want 0", at)
	}
}
