// SPDX-License-Identifier: Apache-2.0

package spool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"weir/internal/atomicfile"
)

// scratchFolder holds a folder of temporary files of each process. Its name begins with a dot, so
// that other readers of the spool ignore it.
const scratchFolder = ".writing"

// scratch is this process's folder of temporary files. It is locked while the process lives.
type scratch struct {
	dir  string
	lock *os.File
}

// newScratch removes the folders of dead processes and creates one for this process.
func newScratch(parent string) (*scratch, error) {
	if err := atomicfile.MakeFolder(parent); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(parent)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		left := &scratch{dir: filepath.Join(parent, e.Name())}
		if left.take() == nil {
			if err := left.remove(); err != nil {
				return nil, err
			}
		}
	}
	for range 100 {
		dir, err := os.MkdirTemp(parent, "")
		if err != nil {
			return nil, err
		}
		s := &scratch{dir: dir}
		if s.take() == nil {
			return s, nil
		}
	}
	return nil, fmt.Errorf("lock a folder in %s: %w", parent, unix.EAGAIN)
}

// take locks the folder. It fails if another process has it, or has removed it since.
func (s *scratch) take() error {
	file, err := os.Open(s.dir)
	if err != nil {
		return err
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		var locked, named os.FileInfo
		locked, err = file.Stat()
		if err == nil {
			named, err = os.Stat(s.dir)
		}
		if err == nil && !os.SameFile(locked, named) {
			err = os.ErrNotExist
		}
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	s.lock = file
	return nil
}

// remove deletes the folder and then unlocks it.
func (s *scratch) remove() error {
	return errors.Join(os.RemoveAll(s.dir), s.lock.Close())
}
