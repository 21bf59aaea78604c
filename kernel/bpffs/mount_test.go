// SPDX-License-Identifier: Apache-2.0

package bpffs

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"weir/kernel/testutil"
)

// inMounts runs f on a thread with its own mount namespace without a BPF file system.
func inMounts(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		done <- func() error {
			if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
				return fmt.Errorf("unshare: %w", err)
			}
			if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
				return fmt.Errorf("make mounts private: %w", err)
			}
			for unix.Unmount(standard, unix.MNT_DETACH) == nil {
			}
			return f()
		}()
	}()
	return <-done
}

func TestMount(t *testing.T) {
	testutil.NeedRoot(t)
	err := inMounts(func() error {
		if err := CanPin(standard + "/weir"); err != nil {
			return fmt.Errorf("before: %w", err)
		}
		if mounted, err := Mount(t.TempDir()); mounted || err != nil {
			return fmt.Errorf("another folder: %t, %w", mounted, err)
		}
		if mounted, err := Mount(standard + "/weir"); !mounted || err != nil {
			return fmt.Errorf("mounted %t: %w", mounted, err)
		}
		if mounted, err := Mount(standard + "/weir"); mounted || err != nil {
			return fmt.Errorf("mounted twice: %t, %w", mounted, err)
		}
		info, err := os.Stat(standard)
		if err != nil || info.Mode().Perm() != 0o700 {
			return errors.Join(err, fmt.Errorf("mode %v", info.Mode()))
		}
		return Make(standard + "/weir")
	})
	if err != nil {
		t.Error(err)
	}
}
