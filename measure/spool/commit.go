// SPDX-License-Identifier: Apache-2.0

package spool

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"weir/internal/atomicfile"
)

const (
	maxBatch    = 256 // records of a commit
	maxWriters  = 16  // files written and synchronised at once; a journal commits them together
	maxVersions = 100 // different records under one name
)

// commitAll commits the queue. The records that arrive during a commit form the next one, so that
// a lone record waits for nothing and many share the synchronisation.
func (s *Spool) commitAll() {
	defer close(s.ended)
	for first := range s.queue {
		batch := []*entry{first}
	gather:
		for len(batch) < maxBatch {
			select {
			case e, open := <-s.queue:
				if !open {
					break gather
				}
				batch = append(batch, e)
			default:
				break gather
			}
		}
		for i, err := range s.commit(batch) {
			batch[i].done <- err
		}
	}
}

// commit writes the files, gives them their names, and then synchronises each folder once.
func (s *Spool) commit(batch []*entry) []error {
	errs := make([]error, len(batch))
	var group errgroup.Group
	group.SetLimit(maxWriters)
	for i, e := range batch {
		group.Go(func() error {
			errs[i] = s.ballast.spend(len(e.text), func() error { return s.place(e, strconv.Itoa(i)) })
			return nil
		})
	}
	_ = group.Wait()
	synced := map[string]error{}
	for i, e := range batch {
		if errs[i] != nil {
			continue
		}
		err, is := synced[e.folder]
		if !is {
			err = s.syncFolder(e.folder)
			synced[e.folder] = err
		}
		errs[i] = err
	}
	return errs
}

// syncFolder makes the names in a folder durable, and once also those of its parents, which another
// process may have made.
func (s *Spool) syncFolder(folder string) error {
	levels := 1
	if !s.known[folder] {
		levels = strings.Count(folder, "/") + 2
	}
	for path := filepath.Join(s.dir, folder); levels > 0; path, levels = filepath.Dir(path), levels-1 {
		// An archive removes a folder after the last of its files.
		if err := atomicfile.Sync(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	s.known[folder] = true
	return nil
}

// place writes a record to a temporary file, synchronises it and gives it its name.
func (s *Spool) place(e *entry, temporary string) error {
	from := filepath.Join(s.scratch.dir, temporary)
	if err := writeFile(from, e.text); err != nil {
		_ = os.Remove(from)
		return err
	}
	folder := filepath.Join(s.dir, e.folder)
	for version := 1; version <= maxVersions; version++ {
		to := filepath.Join(folder, versioned(e.name, version))
		err := link(from, to)
		if errors.Is(err, os.ErrNotExist) {
			if err = makeFolder(folder); err == nil {
				err = link(from, to)
			}
		}
		switch {
		case errors.Is(err, os.ErrExist):
			if have, err := os.ReadFile(to); err == nil && bytes.Equal(have, e.text) {
				return os.Remove(from)
			}
		case err != nil:
			_ = os.Remove(from)
			return err
		default:
			return nil
		}
	}
	_ = os.Remove(from)
	return fmt.Errorf("%w: %d other records have the name %s", ErrInvalid, maxVersions, e.name)
}

// versioned returns the name of another record with an equal name: a.json, a.2.json, a.3.json.
func versioned(name string, version int) string {
	if version == 1 {
		return name
	}
	return fmt.Sprintf("%s.%d.json", strings.TrimSuffix(name, ".json"), version)
}

// writeFile writes and synchronises a new file.
func writeFile(path string, text []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// link renames a file unless the new name exists.
func link(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) { // the file system lacks the flag
		if _, err = os.Lstat(to); err == nil {
			err = unix.EEXIST
		} else if errors.Is(err, os.ErrNotExist) {
			err = unix.Rename(from, to)
		}
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

// makeFolder creates a folder and its parents, each durable in its own parent.
func makeFolder(path string) error {
	err := os.Mkdir(path, 0o755)
	if errors.Is(err, os.ErrNotExist) {
		if err = makeFolder(filepath.Dir(path)); err == nil {
			err = os.Mkdir(path, 0o755)
		}
	}
	if errors.Is(err, os.ErrExist) {
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			return &os.PathError{Op: "mkdir", Path: path, Err: unix.ENOTDIR}
		}
		err = nil // its maker may not have synchronised it yet
	}
	if err != nil {
		return err
	}
	return atomicfile.Sync(filepath.Dir(path))
}
