// SPDX-License-Identifier: Apache-2.0

package spool

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/kernel/testutil"
)

func TestASpoolThatLosesARecordAdmitsNoTestUntilItCanStore(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	blocked := filepath.Join(dir, "weir") // a file in the place of the folder
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Store(t.Context(), "quality1", "a..b", noon, record{}); err == nil {
		t.Error("an invalid record is stored")
	}
	if err := s.Ready(); err != nil {
		t.Errorf("after an invalid record: %v", err)
	}
	if err := s.Store(t.Context(), "quality1", "u", noon, record{}); err == nil {
		t.Fatal("a record is stored below a file")
	}
	_, admitted := s.Admit(1)
	for name, err := range map[string]error{"Ready": s.Ready(), "Admit": admitted} {
		if err == nil || !strings.Contains(err.Error(), "the last record could not be stored") || !strings.Contains(err.Error(), "not a directory") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.Remove(blocked); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, time.Minute, "the spool is ready again", func() bool { return s.Ready() == nil })
	if found := files(t, dir); len(found) != 0 {
		t.Errorf("a probe left %v", found)
	}
	if err := s.Store(t.Context(), "quality1", "u", noon, record{}); err != nil {
		t.Error(err)
	}
}
