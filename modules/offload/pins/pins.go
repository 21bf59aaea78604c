// SPDX-License-Identifier: Apache-2.0

// Package pins has the pin folder and the lease clock of all backends.
package pins

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"weir/internal/fault"
)

// Lock excludes other installs and removals until unlock is called. It creates the folder.
func Lock(pins string) (unlock func(), err error) {
	if err := os.MkdirAll(pins, 0o700); err != nil {
		return nil, fault.Wrap(fmt.Errorf("pin the fast path: %w", err), fault.Failed, "mount a BPF file system: mount -t bpf -o mode=700 bpf /sys/fs/bpf")
	}
	folder, err := os.Open(pins)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(folder.Fd()), unix.LOCK_EX); err != nil {
		_ = folder.Close()
		return nil, fmt.Errorf("lock %s: %w", pins, err)
	}
	return func() { _ = folder.Close() }, nil
}

// List returns the sorted entries with one of the prefixes; none without a folder.
func List(pins string, prefixes ...string) (names []string, err error) {
	entries, err := os.ReadDir(pins)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(e.Name(), p) }) {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// Remove deletes entries.
func Remove(pins string, names ...string) error {
	for _, n := range names {
		if err := os.RemoveAll(filepath.Join(pins, n)); err != nil {
			return fmt.Errorf("end the fast path: %w", err)
		}
	}
	return nil
}

// End removes the folder unless a backend still has something in it.
func End(pins string) error {
	err := os.Remove(pins)
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Now returns the lease clock, in nanoseconds.
func Now() (uint64, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC_COARSE, &t); err != nil {
		return 0, fmt.Errorf("read the clock: %w", err)
	}
	return uint64(t.Nano()), nil
}
