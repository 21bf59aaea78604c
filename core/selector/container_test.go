// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weir/core/match"
	"weir/core/policy"
	"weir/core/selector/runtimes"
	"weir/core/selector/runtimes/fake"
	"weir/kernel/cgroup"
	"weir/kernel/testutil"
)

// id returns an ID of a container that starts with a digit.
func id(start string) string { return start + strings.Repeat("0", 64-len(start)) }

// process starts a process in a cgroup and returns its PID and the key of the cgroup.
func process(t *testing.T, path string) (pid int, key match.Key) {
	t.Helper()
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	command := exec.Command("sleep", "600")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	if err := (cgroup.Cgroup{Path: path}).Add(command.Process.Pid); err != nil {
		t.Fatal(err)
	}
	number, err := cgroup.Cgroup{Path: path}.ID()
	if err != nil {
		t.Fatal(err)
	}
	return command.Process.Pid, match.OfCgroup(number)
}

func bind(t *testing.T, kind, text string, h *Host) Binding {
	t.Helper()
	bound, err := h.Bind(parse(t, kind, text))
	if err != nil {
		t.Fatal(err)
	}
	return bound
}

func TestContainersAreFound(t *testing.T) {
	group := testutil.Cgroup(t)
	docker, podman := fake.New(t, "docker", "systemd"), fake.New(t, "podman", "systemd")
	host := func() *Host {
		return &Host{CgroupRoot: group.Path, Runtimes: []runtimes.Runtime{docker.Runtime, podman.Runtime}}
	}
	webPID, web := process(t, filepath.Join(group.Path, "system.slice", "docker-"+id("1")+".scope"))
	// systemd in a container, and crun, move processes to a cgroup below that of the container.
	_, _ = process(t, filepath.Join(group.Path, "machine.slice", "libpod-"+id("2")+".scope", "other"))
	dbPID, _ := process(t, filepath.Join(group.Path, "machine.slice", "libpod-"+id("2")+".scope", "container"))
	number, err := cgroup.Cgroup{Path: filepath.Join(group.Path, "machine.slice", "libpod-"+id("2")+".scope")}.ID()
	if err != nil {
		t.Fatal(err)
	}
	db := match.OfCgroup(number)
	strayPID, _ := process(t, filepath.Join(group.Path, "elsewhere"))
	docker.Set(fake.Container{ID: id("1"), Names: []string{"/web"}, Labels: map[string]string{"app": "shop", "com.docker.compose.service": "web"}, State: "running", PID: webPID},
		fake.Container{ID: id("3"), Names: []string{"/idle"}, Labels: map[string]string{"app": "shop"}, State: "created"},
		fake.Container{ID: id("5"), Names: []string{"/both"}, State: "created"})
	podman.Set(fake.Container{ID: id("2"), Names: []string{"/db"}, Labels: map[string]string{"app": "shop"}, State: "running", PID: dbPID},
		fake.Container{ID: id("4"), Names: []string{"/stray"}, State: "running", PID: strayPID},
		fake.Container{ID: id("6"), Names: []string{"/both"}, State: "created"})

	for _, test := range []struct {
		text    string
		keys    []match.Key
		cgroups int
		missing string
	}{
		{"web", []match.Key{web}, 1, ""},
		{id("1")[:12], []match.Key{web}, 1, ""},
		{"db", []match.Key{db}, 1, ""},
		{"app=shop", []match.Key{db, web}, 3, ""},
		{"com.docker.compose.service=web", []match.Key{web}, 1, ""},
		{"app=other", nil, 0, "there is no container with app=other"},
		{"wep", nil, 0, "there is no container wep"},
		{id("1")[:11], nil, 0, "there is no container " + id("1")[:11]},
		{"idle", nil, 1, "container idle does not run"},
		{"both", nil, 0, "container both is one of docker and one of podman: write the ID of one"},
		{"stray", nil, 0, "container stray has no cgroup of its own"},
	} {
		bound := bind(t, "container", test.text, host())
		if !strings.HasPrefix(bound.Missing, test.missing) || (bound.Missing == "") != (test.missing == "") {
			t.Errorf("%s: it is missing %q, want %q", test.text, bound.Missing, test.missing)
		}
		keys := map[match.Key]bool{}
		for _, key := range bound.Keys() {
			keys[key] = true
		}
		for _, want := range test.keys {
			if !keys[want] {
				t.Errorf("%s: keys %v, want %v", test.text, bound.Keys(), test.keys)
			}
		}
		if len(keys) != len(test.keys) || len(bound.Cgroups()) != test.cgroups {
			t.Errorf("%s: keys %v of cgroups %v, want %v of %d cgroups", test.text, bound.Keys(), bound.Cgroups(), test.keys, test.cgroups)
		}
	}
	if near := host().Near(parse(t, "container", "wep")); near != "web" {
		t.Errorf("near wep: %q", near)
	}
	in, missing, err := host().Inside(parse(t, "container", "db"))
	if err != nil || missing != "" || in.Cgroup != filepath.Join(group.Path, "machine.slice", "libpod-"+id("2")+".scope") {
		t.Errorf("inside db: %+v, %q, %v", in, missing, err)
	}
	docker.Stop()
	if _, err := host().Bind(parse(t, "container", "web")); err != nil {
		t.Errorf("one runtime away: %v", err)
	}
	podman.Stop()
	if _, err := host().Bind(parse(t, "container", "web")); !errors.Is(err, ErrAway) {
		t.Errorf("all runtimes away: %v", err)
	}
}

// A cgroup that the runtime will create is known before the start.
func TestFutureCgroupsOfContainers(t *testing.T) {
	group := testutil.Cgroup(t)
	for _, test := range []struct{ runtime, driver, parent, want string }{
		{"docker", "systemd", "", "/system.slice/docker-ID.scope"},
		{"docker", "systemd", "a-b.slice", "/a.slice/a-b.slice/docker-ID.scope"},
		{"docker", "cgroupfs", "", "/docker/ID"},
		{"docker", "cgroupfs", "/jobs", "/jobs/ID"},
		{"podman", "systemd", "", "/machine.slice/libpod-ID.scope"},
		{"podman", "systemd", "machine-pod_x.slice", "/machine.slice/machine-pod_x.slice/libpod-ID.scope"},
		{"podman", "cgroupfs", "", "/libpod_parent/libpod-ID"},
	} {
		r := fake.New(t, test.runtime, test.driver)
		r.Set(fake.Container{ID: id("a"), Names: []string{"/web"}, State: "created", Parent: test.parent})
		bound := bind(t, "container", "web", &Host{CgroupRoot: group.Path, Runtimes: []runtimes.Runtime{r.Runtime}})
		want := cgroup.Below(group.Path) + strings.Replace(test.want, "ID", id("a"), 1)
		if bound.Path != want || bound.Missing == "" {
			t.Errorf("%s with %s below %q: %+v, want %s", test.runtime, test.driver, test.parent, bound, want)
		}
	}
}

func TestContainersAreWrittenInOneForm(t *testing.T) {
	k, _ := Of(policy.Selector{Kind: "container"})
	for _, text := range []string{"", "a b", "/web", "a/b", "=x", "a\nb", "-a", strings.Repeat("a", 600)} {
		if _, _, err := k.Parse(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
	for text, want := range map[string]string{"web_1.x": "container web_1.x", "io.k8s/app=web server": "containers with io.k8s/app=web server", "app=": "containers with app="} {
		if got, words, err := k.Parse(text); err != nil || got != text || words != want {
			t.Errorf("%q: %q, %q, %v", text, got, words, err)
		}
	}
}

// A socket of another user is no runtime of the host.
func TestOnlySocketsOfRootAreRead(t *testing.T) {
	group := testutil.Cgroup(t)
	r := fake.New(t, "docker", "systemd")
	r.Set(fake.Container{ID: id("a"), Names: []string{"/web"}, State: "created"})
	if err := os.Chown(r.Socket, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	h := &Host{CgroupRoot: group.Path, Runtimes: []runtimes.Runtime{r.Runtime}}
	if bound, err := h.Bind(parse(t, "container", "web")); !errors.Is(err, ErrAway) {
		t.Errorf("bound to %+v, %v", bound, err)
	}
}
