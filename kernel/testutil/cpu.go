// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// OnOneCPU binds the calling goroutine to CPU 0 until it calls the returned function. The kernel
// processes frames of one CPU in order, and some programs count per CPU.
func OnOneCPU(tb testing.TB) (release func()) {
	tb.Helper()
	runtime.LockOSThread()
	var before, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		tb.Fatal(err)
	}
	one.Set(0)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		tb.Fatal(err)
	}
	return func() {
		_ = unix.SchedSetaffinity(0, &before)
		runtime.UnlockOSThread()
	}
}
