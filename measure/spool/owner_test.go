// SPDX-License-Identifier: Apache-2.0

package spool

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/fault"
	"weir/kernel/testutil"
)

func TestRootLeavesTheSpoolOfAnotherUserAlone(t *testing.T) {
	testutil.NeedRoot(t)
	dir := filepath.Join(t.TempDir(), "spool")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	s, err := Open(dir, Options{})
	if err == nil {
		_ = s.Close()
	}
	if fault.Of(err) != fault.Permission || !strings.Contains(fault.Advice(err), "sudo -u") {
		t.Errorf("error %v, advice %q", err, fault.Advice(err))
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("root made %v, %v", left, err)
	}
}
