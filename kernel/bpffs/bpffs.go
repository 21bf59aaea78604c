// SPDX-License-Identifier: Apache-2.0

// Package bpffs keeps maps in a BPF file system, where they outlive the process that made them, and
// opens them again.
package bpffs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weir/internal/fault"
	"weir/kernel/storage"
)

const mount = "mount -t bpf -o mode=700 bpf /sys/fs/bpf"

// Fault adds the way out to an error about a pin.
func Fault(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrPermission):
		return fault.Wrap(err, fault.Permission, "run it as root")
	case storage.Unwritable(err):
		return storage.Fault(err)
	}
	return fault.Wrap(err, fault.Failed, "mount a BPF file system: "+mount)
}

// CanPin refuses a folder that has no BPF file system at or above it; the folder need not exist.
func CanPin(dir string) error {
	var found unix.Statfs_t
	err := unix.Statfs(dir, &found)
	for errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
		err = unix.Statfs(dir, &found)
	}
	if err != nil {
		return Fault(fmt.Errorf("look for a BPF file system at %s: %w", dir, err))
	}
	if found.Type != unix.BPF_FS_MAGIC {
		return fault.New(fault.Testbed, "mount one: "+mount, "no BPF file system is mounted at %s", dir)
	}
	return Writable(dir, found)
}

// Writable refuses a file system that is mounted for reading alone.
func Writable(dir string, found unix.Statfs_t) error {
	if found.Flags&unix.ST_RDONLY == 0 {
		return nil
	}
	return fault.New(fault.Failed, `mount it for writing: mount -o remount,rw "$(findmnt -no TARGET --target `+dir+`)"`,
		"the BPF file system at %s is mounted read-only", dir)
}

// Make makes a folder for pins, for its owner alone.
func Make(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Fault(fmt.Errorf("pin: %w", err))
	}
	return nil
}

// Maps are maps by their names in C, which begin with the data plane's own and an underscore: pins
// have the rest.
type Maps map[string]**ebpf.Map

func (m Maps) pin(dir, name string) string {
	_, short, _ := strings.Cut(name, "_")
	return filepath.Join(dir, short)
}

// Pin keeps them under dir.
func (m Maps) Pin(dir string) error {
	for name, one := range m {
		if err := (*one).Pin(m.pin(dir, name)); err != nil {
			return Fault(fmt.Errorf("pin map %s: %w", name, err))
		}
	}
	return nil
}

// Open opens what Pin has kept. The error is fs.ErrNotExist where one is not there, or is laid out
// otherwise than it is to be.
func (m Maps) Open(dir string, layouts map[string]Layout) (err error) {
	for name, one := range m {
		if *one, err = ebpf.LoadPinnedMap(m.pin(dir, name), nil); err != nil {
			return Opening(err)
		}
		if !layouts[name].Of(*one) {
			return fs.ErrNotExist
		}
	}
	return nil
}

// Opening is the error of a pin that could not be opened: what is not there stays fs.ErrNotExist.
func Opening(err error) error {
	if errors.Is(err, os.ErrPermission) {
		return Fault(fmt.Errorf("open pin: %w", err))
	}
	return err
}

// Remove removes pins; that one is not there is no error.
func Remove(paths ...string) error {
	for _, path := range paths {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Fault(fmt.Errorf("unpin: %w", err))
		}
	}
	return nil
}
