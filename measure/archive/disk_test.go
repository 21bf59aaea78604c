// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"errors"
	"os"
	"testing"

	"weir/kernel/testutil"
)

func TestTheDiskOfAFolderMayFillUp(t *testing.T) {
	disk := testutil.SmallDisk(t, 1<<20)
	d := folderDestination(disk)
	dir := t.TempDir()
	store(t, dir, "quality1", "a", 20)
	testutil.FillDisk(t, disk+"/other")
	var full *destinationError
	if r, err := newArchive(t, dir, d).Pass(t.Context(), true); !errors.As(err, &full) || r.Records != 0 {
		t.Errorf("a full disk: %+v, error %v", r, err)
	}
	if err := os.Remove(disk + "/other"); err != nil {
		t.Fatal(err)
	}
	if r, err := newArchive(t, dir, d).Pass(t.Context(), true); err != nil || r.Records != 20 {
		t.Errorf("after space was made: %+v, error %v", r, err)
	}
	if count := archived(t, objects(t, disk), d.URL); len(count) != 20 {
		t.Errorf("%d records", len(count))
	}
}

// A full spool cannot hold a plan, and so nothing is uploaded without one.
func TestAFullSpoolKeepsItsRecords(t *testing.T) {
	dir := testutil.SmallDisk(t, 1<<20)
	store(t, dir, "quality1", "a", 20)
	testutil.FillDisk(t, dir+"/other")
	to := t.TempDir()
	d := folderDestination(to)
	if _, err := newArchive(t, dir, d).Pass(t.Context(), true); err == nil {
		t.Error("a plan is written on a full disk")
	}
	if err := os.Remove(dir + "/other"); err != nil {
		t.Fatal(err)
	}
	if _, err := newArchive(t, dir, d).Pass(t.Context(), true); err != nil {
		t.Error(err)
	}
	if count := archived(t, objects(t, to), d.URL); len(count) != 20 {
		t.Errorf("%d records", len(count))
	}
}
