// SPDX-License-Identifier: Apache-2.0

// Package storage knows why a file system takes no files, and what a person can do about it.
package storage

import (
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"

	"weir/internal/fault"
)

// Fault gives err the way out where a file could not be written since its file system is full,
// read-only, or with a file where a folder is to be. Other errors stay as they are.
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
		return fault.Wrap(err, fault.Failed, "remove or rename what is a file where a folder is to be, on the way to "+at)
	}
	return err
}

// Unwritable says whether err is one that Fault knows.
func Unwritable(err error) bool {
	for _, one := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.ENOTDIR} {
		if errors.Is(err, one) {
			return true
		}
	}
	return false
}
