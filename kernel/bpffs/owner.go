// SPDX-License-Identifier: Apache-2.0

package bpffs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"weir/internal/fault"
)

// Safe returns an error if another user can move a folder for pins, or can write to it and thus
// move pins away.
// The folder need not exist. In a BPF file system that all users may write, the first user to
// create the folder owns it.
func Safe(dir string) error {
	for path := dir; ; path = filepath.Dir(path) {
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Fault(fmt.Errorf("look at %s: %w", path, err))
		}
		if !info.IsDir() || foreign(info) || open(info) && info.Mode()&os.ModeSticky == 0 {
			// A new owner of the folder does not own the pins in it.
			advice := fmt.Sprintf("inspect its content, then remove it: rm -r %s; other users cannot create it on a BPF file system with mode 0700", path)
			if path != dir {
				advice = fmt.Sprintf("make it root's alone: chown root %s && chmod 700 %s", path, path)
			}
			return fault.New(fault.Failed, advice, "%s belongs to user %d, mode %v: a user with write access can move pins away", path, owner(info), info.Mode())
		}
		if path == filepath.Dir(path) {
			return nil
		}
	}
}

// Clean removes the entries of other users from a folder that is Safe, at any depth, and sets mode
// 0700 on the rest. A missing folder is no error.
func Clean(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Fault(fmt.Errorf("look at pins: %w", err))
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		info, err := os.Lstat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err == nil && foreign(info):
			err = os.RemoveAll(path)
		case err == nil && info.IsDir():
			if open(info) {
				err = os.Chmod(path, 0o700)
			}
			err = errors.Join(err, Clean(path))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Fault(fmt.Errorf("remove another user's files: %w", err))
		}
	}
	return nil
}

func owner(info fs.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Uid) }

// foreign reports whether neither this user nor root owns the file.
func foreign(info fs.FileInfo) bool { return owner(info) != 0 && owner(info) != os.Geteuid() }

// open reports whether other users may write the file.
func open(info fs.FileInfo) bool { return info.Mode().Perm()&0o022 != 0 }
