// SPDX-License-Identifier: Apache-2.0

package scoped

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/direction"
	"weir/internal/fault"
	"weir/internal/units"
	"weir/kernel/cgroup"
	"weir/modules/limit/police"
)

// RunLent runs the command like [Run], under limits applied by a lender. Of c it uses Args, Limits,
// Class and Notify. class is the result of the class.
func RunLent(ctx context.Context, c Command, socket string) (out Outcome, class json.RawMessage, err error) {
	if c.PID != 0 || c.User != nil {
		return out, nil, fault.New(fault.Permission, "run it as root, or omit them", "--pid and --user require root")
	}
	path, err := exec.LookPath(c.Args[0])
	if err != nil {
		return out, nil, fault.New(fault.Usage, "check its name, or give its full path", "find command: %w", err)
	}
	to, err := dialLender(socket)
	if err != nil {
		return out, nil, err
	}
	defer func() { _ = to.Close() }()
	paused, err := startPaused(path, c.Args[1:])
	if err != nil {
		return out, nil, err
	}
	group, err := c.request(ctx, to, paused)
	if err != nil {
		paused.cancel()
		return out, nil, err
	}
	last := make(chan Response, 1)
	go func() {
		a, err := to.receive()
		if err != nil {
			c.notify("the lender has ended, and with it the limit and the class: %v", err)
		}
		last <- a
	}()
	c.reportInherited()
	c.active()
	started := time.Now()
	c.lent = true
	if out.Status, err = c.await(ctx, paused.cmd, group, paused.release); err != nil {
		return out, nil, err
	}
	out.Elapsed = time.Since(started)
	_ = to.send(Request{Format: FormatLend}, -1) // fails if the lender has ended, which was reported
	a := <-last
	out.Counted = map[direction.Direction]police.Counters{}
	for direction, counted := range a.Counted {
		out.Counted[direction] = *counted
	}
	return out, a.Class, nil
}

// request requests limits and class for the paused command, and returns its new cgroup.
func (c Command) request(ctx context.Context, to lender, paused *pausedCommand) (cgroup.Cgroup, error) {
	a := Request{Format: FormatLend, Class: c.Class, Command: abridged(c.Args), Limits: map[direction.Direction]units.BitRate{}}
	for direction, l := range c.Limits {
		a.Limits[direction], a.Shadow = l.Rate, l.Shadow
	}
	before, err := cgroup.Of(paused.cmd.Process.Pid)
	if err != nil {
		return before, err
	}
	pidfd, err := unix.PidfdOpen(paused.cmd.Process.Pid, 0)
	if err != nil {
		return cgroup.Cgroup{}, fmt.Errorf("open process of the command: %w", err)
	}
	defer func() { _ = unix.Close(pidfd) }()
	if err := to.send(a, pidfd); err != nil {
		return cgroup.Cgroup{}, err
	}
	stop := context.AfterFunc(ctx, func() { _ = to.CloseRead() })
	defer stop()
	got, err := to.receive()
	if err != nil {
		return cgroup.Cgroup{}, err
	}
	for _, note := range got.Notes {
		c.notify("%s", note)
	}
	now, err := cgroup.Of(paused.cmd.Process.Pid)
	if err == nil && now.Path == before.Path {
		err = fault.New(fault.Failed, "have an administrator restart it: systemctl restart weir-lend", "the lender has not moved the command into a cgroup with limits; it may have another version")
	}
	return now, err
}

// abridged truncates the command line to fit into a request.
func abridged(words []string) (few []string) {
	const maxBytes = 1 << 10 // JSON may escape each byte as six
	left := maxBytes
	for _, word := range words {
		if left -= len(word); left < 0 {
			return append(few, "...")
		}
		few = append(few, word)
	}
	return few
}
