// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"weir/internal/fault"
)

// CheckOut rejects an unusable output folder before the measurement.
func CheckOut(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return checkWritable(dir)
	case err != nil:
		return fault.Wrap(fmt.Errorf("look at --out: %w", err), fault.Usage, "name a folder that does not exist")
	case len(entries) > 0:
		return fault.New(fault.Usage, "name another folder, or remove it", "the folder %s exists and is not empty", dir)
	}
	return nil
}

// CheckFile rejects an unwritable file of a flag before the measurement. Its folder must exist.
func CheckFile(flag, path string) error {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return fault.New(fault.Usage, "name a file in it", "%s %s is a folder", flag, path)
	case err == nil:
		return nil
	}
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return fault.New(fault.Usage, "make the folder, or name another", "%s %s: %w", flag, path, err)
	}
	return checkWritable(path)
}

// checkWritable tries whether a path that does not exist can be made, with the folders that lead to
// it, and leaves no trace.
func checkWritable(path string) error {
	above := filepath.Dir(path)
	for above != filepath.Dir(above) {
		if _, err := os.Stat(above); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		above = filepath.Dir(above)
	}
	trial, err := os.MkdirTemp(above, ".weir-trial-")
	if err == nil {
		return os.Remove(trial)
	}
	status := fault.Usage
	if errors.Is(err, fs.ErrPermission) {
		status = fault.Permission
	}
	return fault.New(status, "name a place that can be written", "nothing can be made at %s: %w", path, errors.Unwrap(err))
}

// WriteTo writes a file and returns any error, including that of close.
func WriteTo(path string, write func(io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := errors.Join(write(file), file.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// DefaultPolicy is the file of commands that were not given one; packages install it.
const DefaultPolicy = "/etc/weir/policy.yaml"

func PolicyFile(args []string) string {
	if len(args) > 0 {
		return args[0]
	}
	return DefaultPolicy
}
