// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/systemd"
	"weir/kernel/testutil"
)

// The user of a delegated unit can create folders of any name in it. They never replace the host's
// unit.
func TestNobodyTakesThePlaceOfAUnit(t *testing.T) {
	group := testutil.Cgroup(t)
	for _, dir := range []string{"a.slice/user@7.service/payload/nginx.service", "a.slice/container.scope/system.slice/nginx.service"} {
		if err := os.MkdirAll(filepath.Join(group.Path, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := parse(t, "unit", "nginx.service")
	bound, err := (&Host{CgroupRoot: group.Path}).Bind(s)
	if err != nil || bound.Missing != "unit nginx.service has no cgroup: it does not run" {
		t.Errorf("with folders of that name in others' units alone: %+v, %v", bound, err)
	}
	host := filepath.Join(group.Path, "z.slice", "z-y.slice", "nginx.service")
	if err := os.MkdirAll(host, 0o755); err != nil {
		t.Fatal(err)
	}
	want, err := bindCgroup(host)
	if err != nil {
		t.Fatal(err)
	}
	if bound, err = (&Host{CgroupRoot: group.Path}).Bind(s); err != nil || bound != want {
		t.Errorf("the host's unit: %+v, %v, want %+v", bound, err, want)
	}
	if err := os.MkdirAll(filepath.Join(group.Path, "a.slice", "nginx.service"), 0o755); err != nil {
		t.Fatal(err)
	}
	if bound, err = (&Host{CgroupRoot: group.Path}).Bind(s); err != nil || !strings.Contains(bound.Missing, "a.slice/nginx.service and ") {
		t.Errorf("two units of one name: %+v, %v", bound, err)
	}
}

// manager returns the folders of units; nil is no manager.
type manager map[string]string

func (m manager) ControlGroup(unit string) (string, error) {
	switch {
	case m == nil:
		return "", systemd.ErrNobody
	case m[unit] == "late":
		return "", errors.New("no answer in time")
	}
	return m[unit], nil
}

// The answer of the service manager precedes folders of the same name. Without a manager the
// folders count; with an unresponsive one nothing is bound.
func TestTheManagerSaysWhereAUnitIs(t *testing.T) {
	group := testutil.Cgroup(t)
	folder := func(path string) string {
		path = filepath.Join(group.Path, path)
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	aside, own := folder("a.slice/nginx.service"), folder("z.slice/nginx.service")
	s := parse(t, "unit", "nginx.service")
	if _, err := (&Host{CgroupRoot: group.Path, Manager: manager{"nginx.service": "late"}}).Bind(s); err == nil {
		t.Error("no answer is taken for one")
	}
	for _, test := range []struct {
		name  string
		asked manager
		want  string // folder, or the missing object
	}{
		{"the manager's", manager{"nginx.service": "/z.slice/nginx.service"}, own},
		{"the manager's, in a tree that no name leads to", manager{"nginx.service": "/a.slice/nginx.service"}, aside},
		{"it does not run", manager{}, "unit nginx.service has no cgroup: it does not run"},
		{"it has just ended", manager{"nginx.service": "/y.slice/nginx.service"}, "there is no cgroup " + filepath.Join(group.Path, "y.slice/nginx.service")},
		{"nobody listens", nil, "unit nginx.service is in several slices"},
	} {
		bound, err := (&Host{CgroupRoot: group.Path, Manager: test.asked}).Bind(s)
		want, _ := bindCgroup(test.want)
		if err != nil || bound.Missing == "" && bound != want || !strings.HasPrefix(bound.Missing, test.want) && bound.Missing != "" {
			t.Errorf("%s: %+v, %v, want %s", test.name, bound, err, test.want)
		}
	}
}
