// SPDX-License-Identifier: Apache-2.0

package scoped

import (
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"weir/kernel/cgroup"
)

// watchInterval is the poll interval for processes that leave the cgroup. No event reports a move.
const watchInterval = 50 * time.Millisecond

// treeShare bounds the time for reads of all processes, which find descendants that left between
// two polls: one in so many parts.
const treeShare = 50

// maxReported bounds the messages about other cgroups.
const maxReported = 8

// watch reports processes of the command that move to a cgroup outside of its own: their traffic is
// neither limited nor marked. known has the reported cgroups. The returned function ends the watch.
func (c Command) watch(group cgroup.Cgroup, pid int, known map[string]int) (end func()) {
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		w := leavers{c, group, pid, map[int]string{}, map[string]bool{}, time.Time{}}
		for path := range known {
			w.reported[path] = true
		}
		ticker := time.NewTicker(watchInterval)
		defer ticker.Stop()
		for {
			w.look()
			select {
			case <-stop:
				w.look()
				return
			case <-ticker.C:
			}
		}
	}()
	return func() {
		close(stop)
		<-done
	}
}

type leavers struct {
	Command
	group    cgroup.Cgroup
	pid      int
	members  map[int]string // PID to start time of processes seen in the cgroup
	reported map[string]bool
	next     time.Time // of the next read of all processes
}

// look finds former members and descendants in other cgroups.
func (w *leavers) look() {
	pids, err := w.group.AllProcesses()
	if err != nil {
		return // it is removed
	}
	inside := map[int]bool{}
	for _, pid := range pids {
		inside[pid] = true
		if w.members[pid] == "" {
			w.members[pid] = startOf(pid)
		}
	}
	left := map[string]int{}
	for pid, start := range w.members {
		if inside[pid] {
			continue
		}
		delete(w.members, pid)
		if start != "" && startOf(pid) == start {
			w.outside(pid, left)
		}
	}
	if now := time.Now(); !now.Before(w.next) {
		for _, pid := range descendants(w.pid) {
			if !inside[pid] {
				w.outside(pid, left)
			}
		}
		w.next = now.Add(treeShare * time.Since(now))
	}
	for path, n := range left {
		if !w.reported[path] && len(w.reported) < maxReported {
			w.reported[path] = true
			w.reportLeft(path, n)
		}
	}
}

// outside counts a process in a cgroup that is not the command's.
func (w *leavers) outside(pid int, left map[string]int) {
	now, err := cgroup.Of(pid)
	if err == nil && now.Path != w.group.Path && !strings.HasPrefix(now.Path, w.group.Path+"/") {
		left[now.Path]++
	}
}

func (c Command) reportLeft(path string, n int) {
	what := "1 process of %s is"
	if n != 1 {
		what = strconv.Itoa(n) + " processes of %s are"
	}
	c.notify(what+" in another cgroup, %s, and not %s", c.name(), path, c.treatment(" or "))
}

// startOf returns the start time of a process, which distinguishes it from a later one with its
// PID; "" if it has ended.
func startOf(pid int) string {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	// The parenthesized name may contain any character.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	const state, start = 0, 19
	if len(fields) <= start || fields[state] == "Z" {
		return ""
	}
	return fields[start]
}

// reportInherited reports the network sockets that the command inherits: they stay in the cgroup
// that opened them, as with systemd's StandardInput=socket or inetd.
func (c Command) reportInherited() {
	if c.PID != 0 {
		return
	}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return
	}
	seen := map[uint64]bool{}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err != nil || flags&unix.FD_CLOEXEC != 0 {
			continue
		}
		family, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
		var info unix.Stat_t
		if err == nil && (family == unix.AF_INET || family == unix.AF_INET6) && unix.Fstat(fd, &info) == nil {
			seen[info.Ino] = true
		}
	}
	if n := len(seen); n == 1 {
		c.notify("%s inherits a network socket, which is not %s: it belongs to the cgroup that opened it", c.name(), c.treatment(" or "))
	} else if n > 1 {
		c.notify("%s inherits %d network sockets, which are not %s: they belong to the cgroups that opened them", c.name(), n, c.treatment(" or "))
	}
}
