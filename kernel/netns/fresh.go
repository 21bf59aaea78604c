// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// Fresh runs f in a new unnamed network namespace on a separate thread and returns the error of f.
// The namespace has only a loopback device, which is down. It ends with f unless a socket of f
// stays open.
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
