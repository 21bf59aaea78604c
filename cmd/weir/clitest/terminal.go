// SPDX-License-Identifier: Apache-2.0

package clitest

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"weir/kernel/testutil"
)

// Terminal creates a pseudo-terminal of 80 columns and 24 rows and returns both ends.
func Terminal(t *testing.T) (host, terminal *os.File) {
	t.Helper()
	host, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	testutil.Need(t, "pseudo-terminals", err)
	t.Cleanup(func() { host.Close() })
	number, err := unix.IoctlGetInt(int(host.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(host.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(host.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80})
	}
	if err == nil {
		terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminal.Close() })
	return host, terminal
}
