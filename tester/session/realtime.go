// SPDX-License-Identifier: Apache-2.0

package session

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// realtimePriority is above every program without real-time priority, and below the kernel's own
// threads (50).
const realtimePriority = 20

// Realtime runs every thread of this process, present and future, before all others (SCHED_FIFO),
// until Ordinary or the end of the process. A generator that sleeps between frames is then woken on
// time on a shared machine. One that never sleeps gains little: the kernel still gives 5 % of each
// CPU to the others.
func Realtime() error {
	if err := schedule(&unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: realtimePriority}); err != nil {
		return fmt.Errorf("run in real time: %w", err)
	}
	return nil
}

// Ordinary reverts Realtime.
func Ordinary() error {
	if err := schedule(&unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL}); err != nil {
		return fmt.Errorf("end real time: %w", err)
	}
	return nil
}

// schedule gives every thread a policy; future threads inherit it.
func schedule(attr *unix.SchedAttr) error {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return fmt.Errorf("list threads: %w", err)
	}
	for _, task := range tasks {
		id, err := strconv.Atoi(task.Name())
		if err != nil {
			continue
		}
		if err := unix.SchedSetAttr(id, attr, 0); err != nil && !errors.Is(err, unix.ESRCH) { // a thread may end meanwhile
			return err
		}
	}
	return nil
}
