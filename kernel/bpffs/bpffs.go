// SPDX-License-Identifier: Apache-2.0

// Package bpffs pins maps in a BPF file system, so that they outlive their process, and opens them
// again.
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

// Fault adds advice to an error about a pin.
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

// CanPin returns an error unless a BPF file system is mounted at or above dir, or [Mount] would
// mount one. dir need not exist.
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
		if Mountable(dir) {
			return nil
		}
		return fault.New(fault.Testbed, "mount one: "+mount, "no BPF file system is mounted at %s", dir)
	}
	return Writable(dir, found)
}

// Writable returns an error if the file system is mounted read-only.
func Writable(dir string, found unix.Statfs_t) error {
	if found.Flags&unix.ST_RDONLY == 0 {
		return nil
	}
	return fault.New(fault.Failed, `mount it for writing: mount -o remount,rw "$(findmnt -no TARGET --target `+dir+`)"`,
		"the BPF file system at %s is mounted read-only", dir)
}

// Make creates a folder for pins with mode 0700.
func Make(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Fault(fmt.Errorf("pin: %w", err))
	}
	return nil
}

// Maps maps names in C to maps. A name starts with the data plane's name and an underscore; the pin
// has the rest.
type Maps map[string]**ebpf.Map

func (m Maps) pin(dir, name string) string {
	_, short, _ := strings.Cut(name, "_")
	return filepath.Join(dir, short)
}

// Pin pins the maps below dir.
func (m Maps) Pin(dir string) error {
	for name, one := range m {
		if err := (*one).Pin(m.pin(dir, name)); err != nil {
			return Fault(fmt.Errorf("pin map %s: %w", name, err))
		}
	}
	return nil
}

// Open opens the maps pinned by Pin. The error is fs.ErrNotExist if a pin is missing or has another
// layout.
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

// Opening returns the error for a pin that could not be opened. A missing pin stays fs.ErrNotExist.
func Opening(err error) error {
	if errors.Is(err, os.ErrPermission) {
		return Fault(fmt.Errorf("open pin: %w", err))
	}
	return err
}

// Remove removes pins. A missing pin is no error.
func Remove(paths ...string) error {
	for _, path := range paths {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Fault(fmt.Errorf("unpin: %w", err))
		}
	}
	return nil
}
