// SPDX-License-Identifier: Apache-2.0

package session

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// realtimePriority is above everything that does not ask for real time, and below the kernel's own
// threads (50).
const realtimePriority = 20

// Realtime runs every thread of this process, and those to come, before all others (SCHED_FIFO),
// until Ordinary or for as long as the process lives. A generator that sleeps between frames is
// then woken in time on a machine that others use. One that never sleeps gains little: the kernel
// gives 5 % of each processor to the others all the same.
func Realtime() error {
	if err := schedule(&unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: realtimePriority}); err != nil {
		return fmt.Errorf("run in real time: %w", err)
	}
	return nil
}

// Ordinary takes Realtime back.
func Ordinary() error {
	if err := schedule(&unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL}); err != nil {
		return fmt.Errorf("end real time: %w", err)
	}
	return nil
}

// schedule gives every thread a policy; threads to come inherit it.
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
