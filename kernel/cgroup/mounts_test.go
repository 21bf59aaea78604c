// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A hierarchy covered by another mount is not reachable by its path.
func TestMountsThatAreHiddenDoNotCount(t *testing.T) {
	const base = `22 1 0:20 / / rw - ext4 /dev/sda1 rw
24 22 0:22 / /sys rw - sysfs sysfs rw
25 24 0:23 / /sys/fs/cgroup rw - tmpfs tmpfs rw
26 25 0:24 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 none rw
27 25 0:25 / /sys/fs/cgroup/cpu rw - cgroup none rw,cpu
`
	for _, test := range []struct {
		name, more string
		v1, v2     []string
	}{
		{"hybrid", "", []string{"/sys/fs/cgroup/cpu"}, []string{"/sys/fs/cgroup/unified"}},
		{"v2 over all", "30 25 0:24 / /sys/fs/cgroup rw - cgroup2 none rw\n", nil, []string{"/sys/fs/cgroup"}},
		{"v2 over itself", "30 26 0:24 / /sys/fs/cgroup/unified rw - cgroup2 none rw\n", []string{"/sys/fs/cgroup/cpu"}, []string{"/sys/fs/cgroup/unified"}},
		{"a /sys of its own", "30 24 0:30 / /sys rw - sysfs none rw\n", nil, nil},
		{"a neighbour of a like name", "30 25 0:30 / /sys/fs/cgroup/un rw - tmpfs none rw\n", []string{"/sys/fs/cgroup/cpu"}, []string{"/sys/fs/cgroup/unified"}},
		{"a root that was moved to its place", "22 1 0:20 / / rw - ext4 /dev/sda1 rw\n", []string{"/sys/fs/cgroup/cpu"}, []string{"/sys/fs/cgroup/unified"}},
	} {
		base := base
		if strings.HasPrefix(test.more, "22 ") { // its line comes last
			_, base, _ = strings.Cut(base, "\n")
		}
		v1, v2 := mounts(strings.NewReader(base + test.more))
		if diff := cmp.Diff([][]string{test.v1, test.v2}, [][]string{v1, v2}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}
