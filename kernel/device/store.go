// SPDX-License-Identifier: Apache-2.0

package device

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"weir/internal/atomicfile"
	"weir/internal/fault"
	"weir/kernel/netns"
	"weir/kernel/storage"
)

// Store keeps one owner's records of former qdisc trees. R is [Record] or contains one. Each record
// is a file, which exists from before the device changes until the former tree is back: after a
// crash the next process restores from it. The caller serializes the changes of a store.
type Store[R any] struct {
	Dir    string // created with the first record, removed by the sweep of the last
	Prefix string // of the file names
}

const storeSuffix = ".json"

func (s Store[R]) path(key string) string {
	return filepath.Join(s.Dir, s.Prefix+key+storeSuffix)
}

// Put adds or replaces the record of a key in one step.
func (s Store[R]) Put(key string, record R) error {
	if s.Dir == "" {
		return errors.New("record a qdisc tree: no folder is set")
	}
	text, err := json.Marshal(record)
	if err == nil {
		err = os.MkdirAll(s.Dir, 0o700)
	}
	if err == nil {
		err = atomicfile.WriteBytes(s.path(key), 0o600, text)
	}
	if err != nil {
		return storage.Fault(fmt.Errorf("record a qdisc tree: %w", err))
	}
	return nil
}

// Find returns the record of a key; nil without one.
func (s Store[R]) Find(key string) (*R, error) {
	text, err := os.ReadFile(s.path(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	record := new(R)
	if err == nil {
		err = json.Unmarshal(text, record)
	}
	if err != nil {
		return nil, fault.Wrap(fmt.Errorf("read record of a former qdisc tree, %s: %w", s.path(key), err), fault.Failed,
			"remove the file and the qdiscs: tc qdisc del dev DEVICE root")
	}
	return record, nil
}

// All returns the records in the order of their keys.
func (s Store[R]) All() (all []R, err error) {
	err = s.each(func(_ string, r R) error { all = append(all, r); return nil })
	return all, err
}

// Sweep calls restore for each record that stays rejects, and deletes the record if restore
// succeeds. It continues after an error.
func (s Store[R]) Sweep(stays func(key string, r R) bool, restore func(R) error) error {
	var failed []error
	err := s.each(func(key string, r R) error {
		if stays(key, r) {
			return nil
		}
		err := restore(r)
		if err == nil {
			err = s.Delete(key)
		}
		failed = append(failed, err)
		return nil
	})
	s.tidy()
	return errors.Join(append(failed, err)...)
}

// tidy removes the folder if it has no records. A process that was killed in Put leaves a temporary
// file there.
func (s Store[R]) tidy() {
	records := filepath.Join(s.Dir, s.Prefix+"*"+storeSuffix)
	if left, err := filepath.Glob(records); s.Dir == "" || err != nil || len(left) > 0 {
		return
	}
	partial, _ := filepath.Glob(records + ".*")
	for _, path := range partial {
		_ = os.Remove(path)
	}
	_ = os.Remove(s.Dir) // fails unless it is empty
}

// each calls do with every record, until an error.
func (s Store[R]) each(do func(key string, r R) error) error {
	if s.Dir == "" {
		return nil
	}
	paths, err := filepath.Glob(filepath.Join(s.Dir, s.Prefix+"*"+storeSuffix))
	if err != nil {
		return fmt.Errorf("find records of former qdisc trees: %w", err)
	}
	for _, path := range paths {
		key := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), s.Prefix), storeSuffix)
		r, err := s.Find(key)
		if err == nil && r != nil {
			err = do(key, *r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Delete deletes the record of a key. A missing record is no error.
func (s Store[R]) Delete(key string) error {
	if err := os.Remove(s.path(key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete record of a qdisc tree: %w", err)
	}
	return nil
}

// Return is Restore in any network namespace: the calling thread's, then those that namespaces
// calls its function with; nil for none. A device that is gone is no error.
func (r Record) Return(namespaces func(func(*netns.Namespace) error) error) error {
	err := r.Restore(nil)
	if errors.Is(err, ErrGone) && namespaces != nil {
		found := namespaces(func(ns *netns.Namespace) error {
			if errors.Is(err, ErrGone) {
				err = r.Restore(ns)
			}
			return nil
		})
		err = errors.Join(err, found)
	}
	if errors.Is(err, ErrGone) {
		// A device that left its namespace lost its qdiscs; an error of namespaces changes nothing.
		return nil
	}
	return err
}
