// SPDX-License-Identifier: Apache-2.0

package bpffs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// NextSuffix ends the names of staged pins.
const NextSuffix = "_next"

// Replaced is the folder that exists from the moment all pins are staged until the last has its
// final name.
const Replaced = "replaced"

// Pinner is a map, a program or a link.
type Pinner interface{ Pin(path string) error }

// Replace pins objects under dir in place of the pins of the same names, which are among others. It
// stages all pins, creates the folder [Replaced], and renames each pin; then runs before that
// folder is removed. After a crash [Complete] discards a partial set and finishes a complete one.
// An object that is pinned already must be cloned first, because its pin would move. [Swap] is for
// folders without other pins, such as attachments.
func Replace(dir string, pins map[string]Pinner, then func() error) error {
	if err := Complete(dir); err != nil {
		return err
	}
	for name, one := range pins {
		if err := one.Pin(filepath.Join(dir, name+NextSuffix)); err != nil {
			return errors.Join(Fault(fmt.Errorf("pin %s: %w", name, err)), discard(dir))
		}
	}
	if err := os.Mkdir(filepath.Join(dir, Replaced), 0o700); err != nil {
		return errors.Join(Fault(fmt.Errorf("pin: %w", err)), discard(dir))
	}
	if err := rename(dir); err != nil {
		return err
	}
	if then != nil {
		if err := then(); err != nil {
			return err
		}
	}
	return Remove(filepath.Join(dir, Replaced))
}

// Replacing reports whether a Replace is running, or was killed.
func Replacing(dir string) bool {
	staged, _ := filepath.Glob(filepath.Join(dir, "*"+NextSuffix))
	_, err := os.Lstat(filepath.Join(dir, Replaced))
	return len(staged) > 0 || err == nil
}

// Complete recovers from a Replace that was killed: the former pins stay if not all were staged,
// otherwise the new ones are in place.
func Complete(dir string) error {
	marker := filepath.Join(dir, Replaced)
	if _, err := os.Lstat(marker); errors.Is(err, fs.ErrNotExist) {
		return discard(dir)
	}
	if err := rename(dir); err != nil {
		return err
	}
	return Remove(marker)
}

func rename(dir string) error {
	staged, err := filepath.Glob(filepath.Join(dir, "*"+NextSuffix))
	if err != nil {
		return err
	}
	for _, path := range staged {
		if err := os.Rename(path, strings.TrimSuffix(path, NextSuffix)); err != nil {
			return Fault(fmt.Errorf("pin: %w", err))
		}
	}
	return nil
}

func discard(dir string) error {
	staged, err := filepath.Glob(filepath.Join(dir, "*"+NextSuffix))
	if err != nil {
		return err
	}
	return Remove(staged...)
}

// Swap fills a new folder with pins and exchanges it for dir in one step: after a crash one of
// the two sets is complete in dir.
func Swap(dir string, fill func(next string) error) error {
	next := dir + "-next"
	if err := RemoveAll(next); err != nil { // of a killed process
		return err
	}
	if err := fill(next); err != nil {
		return err
	}
	if err := unix.Renameat2(unix.AT_FDCWD, next, unix.AT_FDCWD, dir, unix.RENAME_EXCHANGE); err != nil {
		return Fault(fmt.Errorf("pin: %w", err))
	}
	return RemoveAll(next)
}

// RemoveAll removes a folder of pins; a missing folder is no error.
func RemoveAll(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return Fault(fmt.Errorf("unpin: %w", err))
	}
	return nil
}
