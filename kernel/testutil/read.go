// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Read reads from a socket that has a timeout. A signal ends such a read, and Go's runtime sends
// many.
func Read(fd int, p []byte) (n int, err error) {
	for {
		if n, err = unix.Read(fd, p); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}
