// SPDX-License-Identifier: Apache-2.0

package scoped

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"weir/internal/fault"
	"weir/internal/wait"
	"weir/kernel/cgroup"
	"weir/kernel/sockdiag"
)

// name is what messages call it.
func (c Command) name() string {
	if c.PID != 0 {
		return fmt.Sprintf("process %d", c.PID)
	}
	return c.Args[0]
}

// words are the command as a person would write it.
func (c Command) words() []string {
	if c.PID == 0 {
		return c.Args
	}
	return []string{"--pid", strconv.Itoa(c.PID)}
}

// adopter limits a process that runs already.
func (c Command) adopter() (runner, error) {
	if c.PID == os.Getpid() || c.PID <= 1 {
		return nil, fault.New(fault.Usage, "give the id of another process", "limit process %d: it is this one, or the system's first", c.PID)
	}
	if _, err := cgroupOf(c.PID); err != nil {
		return nil, err
	}
	return c.adopt, nil
}

// adopt moves the process and what descends from it into the cgroup, waits until all have ended,
// and gives those that have not the cgroup back that they were in.
func (c Command) adopt(ctx context.Context, group cgroup.Cgroup) (int, error) {
	former := map[int]cgroup.Cgroup{}
	// One that is moved has its later children in the cgroup; those that it had meanwhile are found
	// by another look.
	for more := true; more; {
		more = false
		for _, pid := range family(c.PID) {
			if _, moved := former[pid]; moved {
				continue
			}
			was, err := cgroupOf(pid)
			if err != nil {
				continue // it has ended
			}
			if was.Path == group.Path {
				was = former[c.PID]
			} else if err := group.Add(pid); err != nil && pid == c.PID {
				return 0, fault.Wrap(err, fault.Failed, "see that it is no thread of the kernel, and in no cgroup of type threaded")
			}
			former[pid], more = was, true
		}
	}
	if len(former) == 0 {
		return 0, fault.New(fault.Usage, "give the id of a process that runs", "process %d has ended", c.PID)
	}
	defer giveBack(group, former, former[c.PID])
	c.sayEscaped(group)
	for {
		pids, err := group.AllProcesses()
		if err != nil {
			return 0, err
		}
		if len(pids) == 0 {
			return 0, c.drain(ctx, group)
		}
		if wait.For(ctx, processLook) != nil {
			return 0, nil
		}
	}
}

// sayEscaped tells of connections that the processes have open, which belong to their former
// cgroup.
func (c Command) sayEscaped(group cgroup.Cgroup) {
	id, err := group.ID()
	if err != nil {
		return
	}
	snapshot, err := sockdiag.TakeSnapshot()
	if err != nil {
		return
	}
	if escaped, err := snapshot.Escaped(id); err == nil && len(escaped) > 0 {
		c.sayOpen(len(escaped))
	}
}

// sayOpen says what open connections of the processes are not.
func (c Command) sayOpen(n int) {
	what := "1 socket that %s has open belongs"
	if n != 1 {
		what = fmt.Sprint(n) + " sockets that %s has open belong"
	}
	c.say(what+" to its former cgroup: not %s, as those are that it opens from now on", c.name(), c.treated(" or "))
}

// giveBack puts the processes that are left where they were; those that came since go where the
// first one was.
func giveBack(group cgroup.Cgroup, former map[int]cgroup.Cgroup, first cgroup.Cgroup) {
	for range 8 { // processes may have children meanwhile
		pids, err := group.AllProcesses()
		if err != nil || len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			was, known := former[pid]
			if !known || was.Add(pid) != nil {
				_ = first.Add(pid)
			}
		}
	}
}

// cgroupOf is the cgroup of a process.
func cgroupOf(pid int) (cgroup.Cgroup, error) {
	c, err := cgroup.Of(pid)
	if errors.Is(err, os.ErrNotExist) {
		return c, fault.New(fault.Usage, "give the id of a process that runs", "limit process %d: %w", pid, err)
	}
	return c, err
}

// family is a process and all that descend from it, as of now, without this one and its own.
func family(pid int) []int {
	children := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well-formed
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// The name in parentheses may hold anything; what counts begins behind the last one.
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		one, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil || len(fields) < 2 || one == os.Getpid() {
			continue
		}
		if parent, err := strconv.Atoi(fields[1]); err == nil {
			children[parent] = append(children[parent], one)
		}
	}
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}
