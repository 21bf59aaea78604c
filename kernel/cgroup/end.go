// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// endTime limits the wait for killed processes; endLook is the polling interval.
const endTime, endLook = 5 * time.Second, 5 * time.Millisecond

// End kills the processes of the cgroup, including frozen ones and excluding this one, and removes
// the cgroup.
func (c Cgroup) End() error {
	for deadline := time.Now().Add(endTime); ; time.Sleep(endLook) {
		err := c.Remove()
		if err == nil || !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return err
		}
		pids, _ := c.Processes()
		for _, pid := range pids {
			if pid != os.Getpid() {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
	}
}

// Frozen reports whether cgroup.freeze of the cgroup or of an ancestor stops its processes. Linux
// before 5.2 has no freezer.
func (c Cgroup) Frozen() bool {
	text, err := os.ReadFile(filepath.Join(c.Path, "cgroup.events"))
	return err == nil && strings.Contains(string(text), "frozen 1")
}
