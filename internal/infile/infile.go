// SPDX-License-Identifier: Apache-2.0

// Package infile reads files that a person named, and takes no harm from what the name turns out to
// be.
//
// The file is opened without waiting and looked at afterwards, so nobody can put a FIFO in its
// place between two steps; what is no regular file is refused; and no more is read than is allowed,
// whatever length the file claims.
package infile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/fault"
)

// Kind is a sort of file.
type Kind struct {
	What   string // "policy", in messages
	Most   int64  // octets
	Name   string // advice where the name leads to no such file
	Larger string // advice where the file is too large
}

// Read returns the content of the file at path. Errors are faults; one for a file that is not there
// wraps [fs.ErrNotExist].
func (k Kind) Read(path string) ([]byte, error) {
	file, err := k.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return k.read(file, path)
}

// Open opens the file at path for what is too large to be read at once; whoever reads it keeps to
// bounds of his own. Its errors are those of [Kind.Read].
func (k Kind) Open(path string) (*os.File, error) {
	// A terminal would become ours, a FIFO or a device might wait for ever.
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, fault.New(fault.Permission, "make the file readable, or run as its owner", "read %s: %w", k.What, err)
	case errors.Is(err, unix.ENXIO): // a socket, or a device with nothing behind it
		return nil, k.notRegular(path, "")
	case err != nil:
		return nil, fault.New(fault.Usage, k.Name, "read %s: %w", k.What, err)
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = k.notRegular(path, describe(info.Mode()))
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	// Some files of /proc have no content until something happens. Others know no deadline.
	_ = file.SetReadDeadline(time.Now().Add(patience))
	return file, nil
}

// patience is how long a file may keep its reader waiting.
const patience = time.Second

func (k Kind) read(file *os.File, path string) ([]byte, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", k.What, err)
	}
	if info.Size() > k.Most {
		return nil, k.tooLarge(path, fmt.Sprintf("%d octets", info.Size()))
	}
	return k.ReadOpen(file, path)
}

// ReadOpen reads what is open already, and has a name in messages.
func (k Kind) ReadOpen(from io.Reader, path string) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(from, k.Most+1))
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, os.ErrDeadlineExceeded):
		return nil, fault.New(fault.Usage, k.Name, "read %s: %s has no content now", k.What, path)
	case err != nil:
		return nil, fault.New(fault.Failed, k.Name, "read %s: %w", k.What, err)
	case int64(len(text)) > k.Most:
		return nil, k.tooLarge(path, fmt.Sprintf("more than %d octets", k.Most))
	}
	return text, nil
}

func (k Kind) notRegular(path, what string) error {
	return fault.New(fault.Usage, k.Name, "read %s: %s is no regular file%s", k.What, path, what)
}

func (k Kind) tooLarge(path, size string) error {
	return fault.New(fault.Usage, k.Larger, "read %s: %s has %s; %d are allowed", k.What, path, size, k.Most)
}

func describe(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return ", it is a folder"
	case mode&fs.ModeNamedPipe != 0:
		return ", it is a pipe: write its content to a file first"
	case mode&fs.ModeDevice != 0:
		return ", it is a device"
	}
	return ""
}
