// SPDX-License-Identifier: Apache-2.0

// Package storage adds advice to errors of writing files.
package storage

import (
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"

	"weir/internal/fault"
)

// Fault adds advice to err if a file could not be written because its file system is full or
// read-only, or because a file is in place of a folder. Other errors stay unchanged.
func Fault(err error) error {
	at, folder := "the file", "."
	var path *fs.PathError
	if errors.As(err, &path) {
		at, folder = path.Path, filepath.Dir(path.Path)
	}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fault.Wrap(err, fault.Failed, "free space or inodes there: df "+folder+"; df -i "+folder)
	case errors.Is(err, syscall.EROFS):
		return fault.Wrap(err, fault.Failed, `make its file system writable: mount -o remount,rw "$(findmnt -no TARGET --target `+folder+`)"`)
	case errors.Is(err, syscall.ENOTDIR):
		return fault.Wrap(err, fault.Failed, "remove or rename the file in place of a folder, on the path to "+at)
	}
	return err
}

// Unwritable reports whether Fault has advice for err.
func Unwritable(err error) bool {
	for _, one := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.ENOTDIR} {
		if errors.Is(err, one) {
			return true
		}
	}
	return false
}
