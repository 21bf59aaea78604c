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

// Safe refuses a folder for pins, which need not exist, that somebody else can move away or fill:
// what is in force by them would no longer be found. Whoever makes the folder first in a BPF file
// system that all may write owns it.
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
			// What he has put into a folder of pins is his as well, whoever gets the folder.
			advice := fmt.Sprintf("look at what it holds, then remove it: rm -r %s; a BPF file system that root alone may write (mode 0700) leaves nobody the place", path)
			if path != dir {
				advice = fmt.Sprintf("make it root's alone: chown root %s && chmod 700 %s", path, path)
			}
			return fault.New(fault.Failed, advice, "%s belongs to user %d, mode %v: who may write it can move pins in it away", path, owner(info), info.Mode())
		}
		if path == filepath.Dir(path) {
			return nil
		}
	}
}

// Clean removes from a folder that is Safe, at any depth, what belongs to somebody else: folders of
// pins are then made anew. Folders of one's own are closed to others. A missing one is no error.
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
			return Fault(fmt.Errorf("remove what is somebody else's: %w", err))
		}
	}
	return nil
}

func owner(info fs.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Uid) }

// foreign says whether somebody else than this user, or root, owns it.
func foreign(info fs.FileInfo) bool { return owner(info) != 0 && owner(info) != os.Geteuid() }

// open says whether others may write it.
func open(info fs.FileInfo) bool { return info.Mode().Perm()&0o022 != 0 }
