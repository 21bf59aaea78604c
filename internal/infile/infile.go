// SPDX-License-Identifier: Apache-2.0

// Package infile reads files named by a user, safely for any type of file.
//
// It opens a file without blocking and checks the open descriptor, so a FIFO cannot replace the
// file between check and open. It rejects files that are not regular and reads at most a given
// number of bytes, regardless of the size that the file reports.
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

// Kind describes files with one purpose: their name in messages, maximum size and advice.
type Kind struct {
	What   string // "policy", in messages
	Most   int64  // bytes
	Name   string // advice if the file does not exist or is not readable
	Larger string // advice if the file is too large
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

// Open opens the file at path for streaming; the caller limits how much it reads. Errors are those
// of [Kind.Read].
func (k Kind) Open(path string) (*os.File, error) {
	// O_NOCTTY: a terminal must not become the controlling one. O_NONBLOCK: FIFOs and devices must
	// not block.
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, fault.New(fault.Permission, "make the file readable, or run as its owner", "read %s: %w", k.What, err)
	case errors.Is(err, unix.ENXIO): // a socket, or a device without hardware
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
	// Some files of /proc block until an event. Files without deadlines return an error here.
	_ = file.SetReadDeadline(time.Now().Add(patience))
	return file, nil
}

// patience limits the wait for content.
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

// ReadOpen reads an open file; path names it in messages.
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
