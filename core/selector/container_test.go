// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

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
	pid, number := fake.Process(t, path)
	return pid, match.OfCgroup(number)
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
	docker.Set(fake.Container{ID: id("7"), Names: []string{"/" + id("1")}, State: "created"}, fake.Container{ID: id("8"), Names: []string{"/" + id("1")[:12]}, State: "created"},
		fake.Container{ID: id("1"), Names: []string{"/web"}, Labels: map[string]string{"app": "shop", "com.docker.compose.service": "web"}, State: "running", PID: webPID},
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
		{id("1")[:12], []match.Key{web}, 1, ""}, // and not the container that has this ID as its name
		{id("1"), []match.Key{web}, 1, ""},
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

// The containers of a slow runtime together take no more time than the host allows.
func TestAllRequestsShareOneWait(t *testing.T) {
	group := testutil.Cgroup(t)
	r := fake.New(t, "docker", "systemd")
	var all []fake.Container
	for _, digit := range []string{"a", "b", "c"} {
		all = append(all, fake.Container{ID: id(digit), Names: []string{"/" + digit}, State: "running", PID: 1})
	}
	r.Set(all...)
	var inspected atomic.Int32
	r.Before(func(request *http.Request) {
		if request.URL.Path != "/containers/json" {
			inspected.Add(1)
			<-request.Context().Done()
		}
	})
	h := &Host{CgroupRoot: group.Path, Runtimes: []runtimes.Runtime{r.Runtime}, RuntimeWait: time.Second}
	for _, c := range all {
		if bound, err := h.Bind(parse(t, "container", c.Names[0][1:])); !errors.Is(err, ErrAway) {
			t.Errorf("bound to %+v, %v", bound, err)
		}
	}
	if n := inspected.Load(); n > 1 {
		t.Errorf("%d requests have waited for an answer, want 1", n)
	}
}

// Without its runtime a label keeps the cgroups that exist, also after the end of the first one.
func TestExistingCgroupsStay(t *testing.T) {
	group := testutil.Cgroup(t)
	var all []Object
	for _, name := range []string{"a", "b", "c"} {
		g, err := cgroup.Create(group.Path, name)
		if err != nil {
			t.Fatal(err)
		}
		number, err := g.ID()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, Object{match.OfCgroup(number), "/" + name})
	}
	b := bindObjects(slices.Clone(all), "")
	if err := os.Remove(filepath.Join(group.Path, "a")); err != nil {
		t.Fatal(err)
	}
	now := b.Existing(group.Path, "away")
	if want := []match.Key{all[1].Key, all[2].Key}; !slices.Equal(now.Keys(), want) || now.Missing != "" || len(now.Cgroups()) != 3 {
		t.Errorf("%+v, want the keys %v", now, want)
	}
	for _, name := range []string{"b", "c"} {
		if err := os.Remove(filepath.Join(group.Path, name)); err != nil {
			t.Fatal(err)
		}
	}
	if now = b.Existing(group.Path, "away"); len(now.Keys()) != 0 || now.Missing != "away" || now.Path != "/a" {
		t.Errorf("%+v", now)
	}
}
