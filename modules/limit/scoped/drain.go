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
	// processLook and socketLook are the times between two looks at what is left, of which nobody
	// tells; a look at sockets enters every network namespace.
	processLook = 20 * time.Millisecond
	socketLook  = 100 * time.Millisecond
	// graceTime is for processes that were asked to end.
	graceTime = 3 * time.Second
)

// drain waits until the cgroup has no process, and no connection that has something to send: one
// that has been closed sends what was written to it long after its process has ended. Once ctx has
// ended it waits for processes alone, and kills those that stay.
func (c Command) drain(ctx context.Context, group cgroup.Cgroup) error {
	groups, err := c.drainProcesses(ctx, group)
	if err != nil {
		return err
	}
	for told := false; ctx.Err() == nil; told = true {
		n, err := c.unsent(groups)
		if errors.Is(err, sockdiag.ErrNoCgroups) || err == nil && n == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		if !told {
			c.sayLeft(n, "connection still sends what it has written", "connections still send what it has written")
		}
		_ = wait.For(ctx, socketLook)
	}
	return nil
}

// drainProcesses waits for the end of all processes, and returns the ids of the cgroups that they
// were seen in.
func (c Command) drainProcesses(ctx context.Context, group cgroup.Cgroup) (groups map[uint64]bool, err error) {
	ticker := time.NewTicker(processLook)
	defer ticker.Stop()
	groups = map[uint64]bool{}
	var ended time.Time
	for told := false; ; told = true {
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
		if !told {
			c.sayLeft(len(pids), "process that it started has not", "processes that it started have not")
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

// sayLeft says what the command has left behind, one or several, and what is done to it.
func (c Command) sayLeft(n int, one, several string) {
	what, stay := one, "stays"
	if n != 1 {
		what, stay = several, "stay"
	}
	how := c.treated(" and ")
	if how == "" {
		how = "treated as before"
	}
	c.say("%s has ended; %d %s, and %s %s", c.name(), n, what, stay, how)
}

// treated says what is done to the command; "" for nothing.
func (c Command) treated(join string) string {
	var how []string
	if len(c.Limits) > 0 {
		how = append(how, "limited")
	}
	if c.Class != "" {
		how = append(how, "in class "+c.Class)
	}
	return strings.Join(how, join)
}

// unsent counts the connections of some cgroups that have something to send, in all network
// namespaces; in this one alone where others cannot be entered.
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

// signalAll signals every process below the cgroup, which holds only the command and what it
// started.
func signalAll(group cgroup.Cgroup, signal syscall.Signal) {
	pids, err := group.AllProcesses()
	if err != nil {
		return
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, signal)
	}
}
