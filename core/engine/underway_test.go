// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"path/filepath"
	"testing"

	"weir/kernel/testutil"
)

// A journal is underway while its writer holds the lock, and interrupted otherwise.
func TestStatusOfUnderwayAndInterruptedApplies(t *testing.T) {
	e := engineAt(t.TempDir(), filepath.Join(t.TempDir(), "weir"), testutil.Cgroup(t).Path)
	s, err := e.openStore()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.write(journal, &state{Format: formatState}); err != nil {
		t.Fatal(err)
	}
	for _, underway := range []bool{true, false} {
		if status, err := e.Status(); err != nil || status.Underway != underway || status.Interrupted == underway {
			t.Errorf("underway %t, interrupted %t, %v; want underway %t", status.Underway, status.Interrupted, err, underway)
		}
		if underway {
			s.close()
		}
	}
}
