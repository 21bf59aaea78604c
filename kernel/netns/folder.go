// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// makeFolder makes [Dir] and a mount point of it that shares what is mounted in it, as ip-netns(8)
// does for its first namespace. Done later by others, that would cover the namespaces that are
// pinned already, which nobody could unpin any more.
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
