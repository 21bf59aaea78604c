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

// raisePriority has all threads of the process run soon after they wake, before the traffic that
// the emulator carries: the highest priority of the normal class and, from Linux 6.12 on, the
// shortest slice. Threads that are started later inherit both.
//
// Where the scheduler groups processes by session (autogroups, sched(7)), a thread's priority
// counts only within its session; the child has one of its own, whose priority is raised too.
//
// All threads, because Go interrupts a goroutine every 10 ms and has another thread put it back to
// work: a cable would wait for that one. They are not real-time threads, since throttling stalls
// those for 50 ms at a time on a full machine. A process that may not do this runs on as before.
func raisePriority() {
	if session, err := unix.Getsid(0); err == nil && session == os.Getpid() { // only a session of its own
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
