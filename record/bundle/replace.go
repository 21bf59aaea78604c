// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// resolve returns the absolute path of the folder that dir names, through symbolic links if it
// exists.
func resolve(dir string) (string, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(absolute); err == nil {
		return real, nil
	}
	return absolute, nil
}

// sibling returns a free name beside dir, on the same file system. It holds the process id, for
// sweep.
func sibling(dir, purpose string) string {
	name := fmt.Sprintf("%s%s-%d-%08x", siblingPrefix(dir), purpose, os.Getpid(), rand.Uint32())
	return filepath.Join(filepath.Dir(dir), name)
}

func siblingPrefix(dir string) string { return "." + filepath.Base(dir) + ".weir-" }

// replace moves partial to dir. An existing bundle or empty folder is exchanged with it in one step
// if the file system can do that. Otherwise it is moved aside first, and moved back if the second
// step fails.
func replace(dir, partial string) error {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return os.Rename(partial, dir)
	}
	err := unix.Renameat2(unix.AT_FDCWD, partial, unix.AT_FDCWD, dir, unix.RENAME_EXCHANGE)
	if err == nil {
		return os.RemoveAll(partial)
	}
	if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("replace %s: %w", dir, err)
	}
	aside := sibling(dir, "old")
	if err := os.Rename(dir, aside); err != nil {
		return err
	}
	if err := os.Rename(partial, dir); err != nil {
		return errors.Join(err, os.Rename(aside, dir))
	}
	return os.RemoveAll(aside)
}

// sweep removes remains of killed writers beside dir. It keeps folders of living processes.
func sweep(dir string) {
	entries, err := os.ReadDir(filepath.Dir(dir))
	if err != nil {
		return // only cleanup: the bundle is written
	}
	for _, entry := range entries {
		rest, ours := strings.CutPrefix(entry.Name(), siblingPrefix(dir))
		var process int
		var purpose string
		if fields := strings.Split(rest, "-"); ours && len(fields) == 3 {
			purpose = fields[0]
			_, _ = fmt.Sscan(fields[1], &process)
		}
		if (purpose != "partial" && purpose != "old") || process <= 0 {
			continue
		}
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", process)); errors.Is(err, fs.ErrNotExist) {
			_ = os.RemoveAll(filepath.Join(filepath.Dir(dir), entry.Name()))
		}
	}
}
