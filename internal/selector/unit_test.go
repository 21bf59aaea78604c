// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/testutil"
)

// Who was given a unit can make folders of any name in it; they never take the place of the host's
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
