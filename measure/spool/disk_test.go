// SPDX-License-Identifier: Apache-2.0

package spool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/kernel/testutil"
)

func TestAFullDiskRefusesTestsAndLosesNoneOfTheAdmitted(t *testing.T) {
	dir := testutil.SmallDisk(t, 8<<20)
	s := open(t, filepath.Join(dir, "spool"), Options{PerTest: 128 << 10, MinFree: -1})
	const admitted = 20
	for range admitted {
		release, err := s.Admit(128 << 10)
		if err != nil {
			t.Fatal(err)
		}
		defer release()
	}
	other := filepath.Join(dir, "other")
	testutil.FillDisk(t, other)
	for i := range admitted {
		id := fmt.Sprint("u", i)
		if err := s.Store(t.Context(), "quality1", id, noon, record{id, noon, strings.Repeat("x", 60<<10)}); err != nil {
			t.Fatalf("record %d of an admitted test: %v", i, err)
		}
	}
	if n := len(files(t, s.Dir())); n != admitted {
		t.Errorf("%d records, want %d", n, admitted)
	}
	testutil.FillDisk(t, other+"2")
	for i := 0; ; i++ { // the space reserved in advance
		release, err := s.Admit(128 << 10)
		if errors.Is(err, ErrFull) {
			break
		}
		if err != nil || i == 2*step {
			t.Fatalf("admission %d on a full disk: %v", i, err)
		}
		defer release()
	}
	if err := s.Ready(); !errors.Is(err, ErrFull) {
		t.Errorf("health on a full disk: %v", err)
	}
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	release, err := s.Admit(128 << 10)
	if err != nil {
		t.Fatalf("admission after space was made: %v", err)
	}
	release()
}

func TestAFullDiskIsReportedAndLeavesNoPartialFile(t *testing.T) {
	dir := testutil.SmallDisk(t, 1<<20)
	s := open(t, dir, Options{PerTest: 4 << 10, MinFree: -1})
	stored := 0
	for i := range 1000 {
		id := fmt.Sprint("u", i)
		err := s.Store(t.Context(), "quality1", id, noon, record{id, noon, strings.Repeat("x", 10000)})
		if errors.Is(err, ErrFull) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		stored++
	}
	if n := len(files(t, dir)); n != stored || n == 0 || n == 1000 {
		t.Errorf("%d records, and %d acknowledged", n, stored)
	}
	if err := os.RemoveAll(filepath.Join(dir, "weir")); err != nil {
		t.Fatal(err)
	}
	if err := s.Store(t.Context(), "quality1", "after", noon, record{}); err != nil {
		t.Errorf("after space was made: %v", err)
	}
}

func TestASpoolOpensOnAFullDisk(t *testing.T) {
	dir := testutil.SmallDisk(t, 1<<20)
	spool := filepath.Join(dir, "spool")
	if err := os.Mkdir(spool, 0o755); err != nil {
		t.Fatal(err)
	}
	testutil.FillDisk(t, filepath.Join(dir, "other"))
	s := open(t, spool, Options{MinFree: -1})
	if err := s.Ready(); !errors.Is(err, ErrFull) {
		t.Errorf("health: %v", err)
	}
}

func TestTooLittleFreeSpaceRefusesTests(t *testing.T) {
	s := open(t, t.TempDir(), Options{MinFree: 1 << 62})
	if _, err := s.Admit(128 << 10); !errors.Is(err, ErrFull) {
		t.Errorf("error %v", err)
	}
	if err := s.Store(t.Context(), "quality1", "u", noon, record{}); err != nil {
		t.Errorf("a record of an admitted test: %v", err)
	}
}
