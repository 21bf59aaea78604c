// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// 'ip netns exec' mounts another /sys over the one with the hierarchy.
func TestAdviceInANamedNamespace(t *testing.T) {
	dir := t.TempDir()
	if got := wayToMount(dir); !strings.HasPrefix(got, "mount it:") {
		t.Errorf("in no named namespace: %s", got)
	}
	blue := filepath.Join(dir, "blue")
	if err := os.Symlink("/proc/thread-self/ns/net", blue); err != nil {
		t.Fatal(err)
	}
	if got := wayToMount(dir); !strings.Contains(got, "nsenter --net="+blue) {
		t.Errorf("in the namespace blue: %s", got)
	}
}
