// SPDX-License-Identifier: Apache-2.0

// Package atomicfile replaces files in one step.
package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// Write replaces the file at path with the output of write and these permissions. After a crash,
// power loss included, path has the old content or the new: the file and its folder are
// synchronised. A killed process may leave a temporary file beside it, named like path with a dot
// and a suffix. The error of a file operation is an *fs.PathError or an *os.LinkError; others are
// write's.
func Write(path string, mode os.FileMode, write func(io.Writer) error) error {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	err = errors.Join(write(file), file.Chmod(mode), file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
		return err
	}
	return Sync(filepath.Dir(path))
}

// WriteBytes is Write for content in memory.
func WriteBytes(path string, mode os.FileMode, content []byte) error {
	return Write(path, mode, func(w io.Writer) error { _, err := w.Write(content); return err })
}

// Rename moves a file within its folder and synchronises the folder.
func Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return Sync(filepath.Dir(to))
}

// Sync writes the entries of a folder to its disk.
func Sync(folder string) error {
	dir, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
