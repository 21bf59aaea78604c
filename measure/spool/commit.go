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
		err := atomicfile.Move(from, to)
		if errors.Is(err, os.ErrNotExist) {
			if err = atomicfile.MakeFolder(folder); err == nil {
				err = atomicfile.Move(from, to)
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
