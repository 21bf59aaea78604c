// SPDX-License-Identifier: Apache-2.0

package scoped

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/fault"
	"weir/internal/units"
	"weir/kernel/cgroup"
	"weir/modules/limit"
)

// RunLent is [Run] with the rights of a lender, which does to the command's cgroup what the ask
// says. Of the command it takes Args and Class. class is what was done for the class.
func RunLent(ctx context.Context, c Command, socket string) (out Outcome, class json.RawMessage, err error) {
	if c.PID != 0 || c.User != nil {
		return out, nil, fault.New(fault.Permission, "run it as root, or leave them out", "--pid and --user take root")
	}
	path, err := exec.LookPath(c.Args[0])
	if err != nil {
		return out, nil, fault.New(fault.Usage, "check its name, or write its whole path", "find command: %w", err)
	}
	to, err := dialLender(socket)
	if err != nil {
		return out, nil, err
	}
	defer func() { _ = to.Close() }()
	held, err := startHeld(path, c.Args[1:])
	if err != nil {
		return out, nil, err
	}
	group, err := c.borrow(ctx, to, held)
	if err != nil {
		held.cancel()
		return out, nil, err
	}
	last := make(chan Answer, 1)
	go func() {
		a, err := to.answer()
		if err != nil {
			c.say("whoever lends the rights has ended, and limit and class with it: %v", err)
		}
		last <- a
	}()
	started := time.Now()
	c.lent = true
	if out.Status, err = c.await(ctx, held.cmd, group, held.proceed); err != nil {
		return out, nil, err
	}
	out.Elapsed = time.Since(started)
	_ = to.ask(Ask{Format: FormatLend}, -1) // there may be nobody any more, who was told of
	a := <-last
	out.Counted = map[limit.Direction]limit.Counters{}
	for direction, counted := range a.Counted {
		out.Counted[direction] = *counted
	}
	return out, a.Class, nil
}

// borrow asks for what the command is to have, and returns the cgroup that it then is in.
func (c Command) borrow(ctx context.Context, to lender, held *heldCommand) (cgroup.Cgroup, error) {
	a := Ask{Format: FormatLend, Class: c.Class, Command: abridged(c.Args), Limits: map[limit.Direction]units.BitRate{}}
	for direction, l := range c.Limits {
		a.Limits[direction], a.Shadow = l.Rate, l.Shadow
	}
	pidfd, err := unix.PidfdOpen(held.cmd.Process.Pid, 0)
	if err != nil {
		return cgroup.Cgroup{}, fmt.Errorf("ask for rights: %w", err)
	}
	defer func() { _ = unix.Close(pidfd) }()
	if err := to.ask(a, pidfd); err != nil {
		return cgroup.Cgroup{}, err
	}
	stop := context.AfterFunc(ctx, func() { _ = to.CloseRead() })
	defer stop()
	got, err := to.answer()
	if err != nil {
		return cgroup.Cgroup{}, err
	}
	for _, note := range got.Notes {
		c.say("%s", note)
	}
	return cgroup.Of(held.cmd.Process.Pid)
}

// abridged are words that fit into an ask.
func abridged(words []string) (few []string) {
	const most = 1 << 10 // octets, which JSON may write as six each
	left := most
	for _, word := range words {
		if left -= len(word); left < 0 {
			return append(few, "...")
		}
		few = append(few, word)
	}
	return few
}
