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

// name identifies the command in messages.
func (c Command) name() string {
	if c.PID != 0 {
		return fmt.Sprintf("process %d", c.PID)
	}
	return c.Args[0]
}

// words returns the arguments of weir run for the command.
func (c Command) words() []string {
	if c.PID == 0 {
		return c.Args
	}
	return []string{"--pid", strconv.Itoa(c.PID)}
}

// processRunner returns the runner of a process that is already running.
func (c Command) processRunner() (runner, error) {
	if c.PID == os.Getpid() || c.PID <= 1 {
		return nil, fault.New(fault.Usage, "give the id of another process", "limit process %d: it is weir itself or the init process", c.PID)
	}
	if _, err := cgroupOf(c.PID); err != nil {
		return nil, err
	}
	return c.runProcess, nil
}

// runProcess moves the process and the descendants in its cgroup into the new cgroup and waits
// until all have ended. Descendants in other cgroups stay there, under the limits of their cgroups.
// If ctx ends first, it moves the rest back into their former cgroup.
func (c Command) runProcess(ctx context.Context, group cgroup.Cgroup) (int, error) {
	former, elsewhere := map[int]cgroup.Cgroup{}, map[string]int{}
	from := filepath.Dir(group.Path)
	// Children forked before their parent was moved are found in the next pass.
	for more := true; more; {
		more = false
		for _, pid := range descendants(c.PID) {
			if _, moved := former[pid]; moved {
				continue
			}
			was, err := cgroupOf(pid)
			if err != nil {
				continue // ended meanwhile
			}
			if was.Path == group.Path {
				was = former[c.PID]
			} else if was.Path != from {
				if pid == c.PID {
					return 0, fault.New(fault.Failed, "run it again", "process %d has moved to another cgroup, %s", pid, was.Path)
				}
				elsewhere[was.Path]++
				former[pid] = was
				continue
			} else if err := group.Add(pid); err != nil && pid == c.PID {
				return 0, fault.Wrap(err, fault.Failed, "choose a process that is neither a kernel thread nor in a threaded cgroup")
			}
			former[pid], more = was, true
		}
	}
	if len(former) == 0 {
		return 0, fault.New(fault.Usage, "give the id of a running process", "process %d has ended", c.PID)
	}
	defer moveBack(group, former, former[c.PID])
	c.reportOpenSockets(group)
	for path, n := range elsewhere {
		c.reportLeft(path, n)
	}
	defer c.watch(group, c.PID, elsewhere)()
	for {
		pids, err := group.AllProcesses()
		if err != nil {
			return 0, err
		}
		if len(pids) == 0 {
			return 0, c.awaitCompletion(ctx, group)
		}
		if wait.For(ctx, processInterval) != nil {
			return 0, nil
		}
	}
}

// reportOpenSockets reports sockets opened before the move, which stay in the former cgroup.
func (c Command) reportOpenSockets(group cgroup.Cgroup) {
	id, err := group.ID()
	if err != nil {
		return
	}
	snapshot, err := sockdiag.TakeSnapshot()
	if err != nil {
		return
	}
	if escaped, err := snapshot.Escaped(id); err == nil && len(escaped) > 0 {
		c.reportSockets(len(escaped))
	}
}

func (c Command) reportSockets(n int) {
	sockets := "1 open socket of %s stays"
	if n != 1 {
		sockets = fmt.Sprint(n) + " open sockets of %s stay"
	}
	c.notify(sockets+" in its former cgroup; only new sockets are %s", c.name(), c.treatment(" and "))
}

// moveBack moves the remaining processes into their former cgroups; processes started since go to
// the cgroup of the first one.
func moveBack(group cgroup.Cgroup, former map[int]cgroup.Cgroup, first cgroup.Cgroup) {
	for range 8 { // processes may fork meanwhile
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

// cgroupOf returns the cgroup of a process.
func cgroupOf(pid int) (cgroup.Cgroup, error) {
	c, err := cgroup.Of(pid)
	if errors.Is(err, os.ErrNotExist) {
		return c, fault.New(fault.Usage, "give the id of a running process", "limit process %d: %w", pid, err)
	}
	return c, err
}

// descendants returns a process and its current descendants, without this process and its own.
func descendants(pid int) []int {
	children := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well-formed
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // ended meanwhile
		}
		// The parenthesized name may contain any character; the other fields follow the last ")".
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
