// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// Fresh runs f in a new network namespace without a name, on a thread of its own, and returns f's
// error. Only a loopback device exists in there, and it is down. The namespace ends with f, unless
// a socket that f opened there stays open.
func Fresh(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("create namespace: %w", err)
			return
		}
		done <- f()
	}()
	return <-done
}
