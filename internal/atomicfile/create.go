// SPDX-License-Identifier: Apache-2.0

package atomicfile

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Create writes a new file with all its content, or returns an error with os.ErrExist in its chain
// and keeps the present file. Missing folders are made. The file is durable, like that of [Write].
func Create(path string, mode os.FileMode, content []byte) error {
	if err := MakeFolder(filepath.Dir(path)); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	err = errors.Join(err, file.Chmod(mode), file.Sync(), file.Close())
	if err == nil {
		err = Move(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
		return err
	}
	return Sync(filepath.Dir(path))
}

// Move renames a file unless the new name exists; then the error has os.ErrExist in its chain. It
// synchronises nothing.
func Move(from, to string) error {
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

// MakeFolder creates a folder with mode 755 and its missing parents, each durable in its own
// parent.
func MakeFolder(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	err := os.Mkdir(path, 0o755)
	if errors.Is(err, os.ErrNotExist) {
		if err = MakeFolder(filepath.Dir(path)); err == nil {
			err = os.Mkdir(path, 0o755)
		}
	}
	if errors.Is(err, os.ErrExist) {
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			return &os.PathError{Op: "mkdir", Path: path, Err: unix.ENOTDIR}
		}
		err = nil // a concurrent call may not have synchronised it yet
	}
	if err != nil {
		return err
	}
	return Sync(filepath.Dir(path))
}
