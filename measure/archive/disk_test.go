// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"weir/kernel/testutil"
)

// smallDisk mounts a file system of that many bytes for this test alone.
func smallDisk(t *testing.T, size int) string {
	t.Helper()
	testutil.NeedRoot(t)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		t.Fatalf("mount a small tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill writes a file until the disk is full.
func fill(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for err == nil {
		_, err = file.Write(make([]byte, 4096))
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
}

func TestTheDiskOfAFolderMayFillUp(t *testing.T) {
	disk := smallDisk(t, 1<<20)
	d := folderDestination(disk)
	dir := t.TempDir()
	store(t, dir, "quality1", "a", 20)
	fill(t, disk+"/other")
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
	dir := smallDisk(t, 1<<20)
	store(t, dir, "quality1", "a", 20)
	fill(t, dir+"/other")
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
