// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	highest    = -20 // nice
	shortSlice = 100 * time.Microsecond
)

// raisePriority lets all threads of the process run soon after they wake, before the emulated
// traffic: the highest priority of the normal class and, from Linux 6.12 on, the shortest slice.
// Threads started later inherit both.
//
// With autogroups (sched(7)) a thread's priority counts only within its session. The child has its
// own session, and its priority is raised too.
//
// All threads need it: Go interrupts a goroutine every 10 ms and another thread resumes it, so a
// cable would wait for that thread. They are not real-time threads, because throttling stalls those
// for 50 ms at a time on a full machine. Without the permission the process runs at its old
// priority.
func raisePriority() {
	if session, err := unix.Getsid(0); err == nil && session == os.Getpid() { // only in its own session
		_ = os.WriteFile("/proc/self/autogroup", []byte(strconv.Itoa(highest)), 0)
	}
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			continue
		}
		_ = unix.Setpriority(unix.PRIO_PROCESS, id, highest)
		_ = unix.SchedSetAttr(id, &unix.SchedAttr{
			Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL, Nice: highest, Runtime: uint64(shortSlice),
		}, 0)
	}
}
