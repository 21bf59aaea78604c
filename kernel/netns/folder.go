// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// makeFolder creates [Dir] as a shared mount point, as ip-netns(8) does for its first namespace. If
// ip-netns did so later, its mount would cover existing namespaces, and they could not be unpinned.
func makeFolder() error {
	if err := os.MkdirAll(Dir, 0o755); err != nil {
		return err
	}
	folder, err := os.Open(Dir)
	if err != nil {
		return err
	}
	defer func() { _ = folder.Close() }()
	// ip-netns(8) locks it too.
	if err := unix.Flock(int(folder.Fd()), unix.LOCK_EX); err != nil {
		return err
	}
	share := func() error { return unix.Mount("", Dir, "none", unix.MS_SHARED|unix.MS_REC, "") }
	if err := share(); !errors.Is(err, unix.EINVAL) {
		return err
	}
	if err := unix.Mount(Dir, Dir, "none", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	return share()
}
