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

// endTime is how long processes of a cgroup may take to die, and endLook the time between two
// looks.
const endTime, endLook = 5 * time.Second, 5 * time.Millisecond

// End kills the cgroup's processes, frozen ones too and this one excepted, until it can be removed,
// and removes it.
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

// Frozen says whether the cgroup's processes, or those that come, stand still, by its own
// cgroup.freeze or that of a cgroup above. Before Linux 5.2 none is.
func (c Cgroup) Frozen() bool {
	text, err := os.ReadFile(filepath.Join(c.Path, "cgroup.events"))
	return err == nil && strings.Contains(string(text), "frozen 1")
}
