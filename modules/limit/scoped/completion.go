// SPDX-License-Identifier: Apache-2.0

package scoped

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"time"

	"weir/internal/wait"
	"weir/kernel/cgroup"
	"weir/kernel/netns"
	"weir/kernel/sockdiag"
)

const (
	// Poll intervals, since no event reports the end of the processes or sockets. A poll of the
	// sockets enters every network namespace.
	processInterval = 20 * time.Millisecond
	socketInterval  = 100 * time.Millisecond
	// graceTime is the time between SIGTERM and SIGKILL.
	graceTime = 3 * time.Second
)

// awaitCompletion waits until the cgroup has no process and no connection with unsent data; a
// closed connection sends its data long after its process has ended. After the end of ctx it waits
// for processes only, and kills the rest.
func (c Command) awaitCompletion(ctx context.Context, group cgroup.Cgroup) error {
	groups, err := c.awaitProcesses(ctx, group)
	if err != nil {
		return err
	}
	for reported := false; ctx.Err() == nil; reported = true {
		n, err := c.unsent(groups)
		if errors.Is(err, sockdiag.ErrNoCgroups) || err == nil && n == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		if !reported {
			c.reportRemaining(n, "connection still has data to send", "connections still have data to send")
		}
		_ = wait.For(ctx, socketInterval)
	}
	return nil
}

// awaitProcesses waits for the end of all processes, and returns the ids of the cgroups they were
// seen in.
func (c Command) awaitProcesses(ctx context.Context, group cgroup.Cgroup) (groups map[uint64]bool, err error) {
	ticker := time.NewTicker(processInterval)
	defer ticker.Stop()
	groups = map[uint64]bool{}
	var ended time.Time
	for reported := false; ; reported = true {
		tree, err := group.Tree()
		if err != nil {
			return nil, err
		}
		for _, one := range tree {
			if id, err := one.ID(); err == nil {
				groups[id] = true
			}
		}
		pids, err := group.AllProcesses()
		if err != nil || len(pids) == 0 {
			return groups, err
		}
		if !reported {
			c.reportRemaining(len(pids), "descendant still runs", "descendants still run")
		}
		if ctx.Err() != nil {
			if ended.IsZero() {
				ended = time.Now()
				signalAll(group, syscall.SIGTERM)
			} else if time.Since(ended) > graceTime {
				signalAll(group, syscall.SIGKILL)
			}
		}
		<-ticker.C
	}
}

// reportRemaining reports n remaining processes or connections and how they are treated.
func (c Command) reportRemaining(n int, one, several string) {
	remaining, stay := one, "stays"
	if n != 1 {
		remaining, stay = several, "stay"
	}
	how := c.treatment(" and ")
	if how == "" {
		how = "treated as before"
	}
	c.notify("%s has ended; %d %s, and %s %s", c.name(), n, remaining, stay, how)
}

// treatment names the active limits and class; "" for none.
func (c Command) treatment(join string) string {
	var how []string
	if len(c.Limits) > 0 {
		how = append(how, "limited")
	}
	if c.Class != "" {
		how = append(how, "in class "+c.Class)
	}
	return strings.Join(how, join)
}

// unsent counts the connections of the cgroups with unsent data in all network namespaces, or in
// this one only without the privilege to enter others.
func (c Command) unsent(groups map[uint64]bool) (all int, err error) {
	if c.lent {
		return sockdiag.Unsent(nil, groups)
	}
	err = netns.Each(func(ns *netns.Namespace) error {
		n, err := sockdiag.Unsent(ns, groups)
		all += n
		return err
	})
	return all, err
}

// signalAll signals every process of the command.
func signalAll(group cgroup.Cgroup, signal syscall.Signal) {
	pids, err := group.AllProcesses()
	if err != nil {
		return
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, signal)
	}
}
