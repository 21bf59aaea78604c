// SPDX-License-Identifier: Apache-2.0

// Package scoped runs one command, and all it starts, under a limit.
//
// The limit lives as long as the caller, who waits for all processes that the command has started,
// whichever cgroups they have made, and for what they have written to be sent. When the caller is
// killed the command goes on without a limit, its connections with the pace that they had before
// ([Keeper]), and the cgroup that it leaves is removed by the next call.
package scoped

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"slices"
	"time"

	"weir/internal/child"
	"weir/internal/fault"
	"weir/internal/kernel/cgroup"
	"weir/limit"
)

// Treatment does something else than a limit to what a cgroup sends, until it is closed.
type Treatment func(cgroup string) (io.Closer, error)

// Command is what to run and how much of the network it may use. A direction without a limit is
// left alone.
type Command struct {
	Args   []string
	Limits map[limit.Direction]*limit.Limit
	// Treatments are put on its cgroup before it starts. With them there need be no limits.
	Treatments []Treatment
	Class      string     // what they give it, in words; "" without a class of service
	User       *user.User // who runs it; nil is the caller
	// PID is a process that runs already, in place of Args: it and what descends from it come under
	// the limit until they end, or ctx does.
	PID int
	// Say is called with what the caller may want to know while it waits.
	Say func(what string)
}

func (c Command) say(format string, args ...any) {
	if c.Say != nil {
		c.Say(fmt.Sprintf(format, args...))
	}
}

// Outcome is how the command ended and what it used.
type Outcome struct {
	Status  int // the command's exit status; 128 + signal if a signal ended it
	Elapsed time.Duration
	Counted map[limit.Direction]limit.Counters // of the directions that were limited
}

// Run runs the command to its end and to the end of every process that it started. When ctx ends
// they are terminated.
func Run(ctx context.Context, c Command) (out Outcome, err error) {
	if err := removeStale(); err != nil {
		return Outcome{}, err
	}
	runner, err := c.runner()
	if err != nil {
		return Outcome{}, err
	}
	run, file, err := register(c)
	if err != nil {
		return Outcome{}, err
	}
	defer func() { _ = errors.Join(os.Remove(run.path()), file.Close()) }()
	group, err := cgroup.Create("", prefix+run.ID)
	if err != nil {
		return Outcome{}, err
	}
	defer func() { _ = group.RemoveAll() }()
	treated, err := c.treat(group)
	defer func() { err = errors.Join(err, closeAll(treated)) }()
	if err != nil {
		return Outcome{}, err
	}
	if len(c.Limits) == 0 {
		run.Cgroup = group.Path
		if err := run.describe(file); err != nil {
			return Outcome{}, err
		}
		return c.finish(ctx, runner, group, nil)
	}
	return c.limited(ctx, runner, group, run, file)
}

// treat puts the treatments on the command's cgroup.
func (c Command) treat(group cgroup.Cgroup) (all []io.Closer, err error) {
	for _, treat := range c.Treatments {
		one, err := treat(group.Path)
		if err != nil {
			return all, err
		}
		all = append(all, one)
	}
	return all, nil
}

func closeAll(all []io.Closer) error {
	var errs []error
	for _, one := range slices.Backward(all) {
		errs = append(errs, one.Close())
	}
	return errors.Join(errs...)
}

// limited runs the command under its limits.
func (c Command) limited(ctx context.Context, runner runner, group cgroup.Cgroup, run *Running, file *os.File) (out Outcome, err error) {
	plane, err := limit.Load(1)
	if err != nil {
		return Outcome{}, err
	}
	var keeper *child.Process // ends after the limit
	defer func() {
		if keeper != nil {
			err = errors.Join(err, keeper.Stop(2*keeperTime))
		}
	}()
	defer func() { _ = plane.Close() }()
	if err := impose(plane, group, c); err != nil {
		return Outcome{}, err
	}
	if keeper, err = keep(ctx, plane); err != nil {
		return Outcome{}, err
	}
	run.Cgroup = group.Path
	if run.Counts, err = plane.CountsID(); err != nil {
		return Outcome{}, err
	}
	if err := run.describe(file); err != nil {
		return Outcome{}, err
	}
	return c.finish(ctx, runner, group, plane)
}

// finish waits for the command and accounts for it; plane is nil without a limit.
func (c Command) finish(ctx context.Context, runner runner, group cgroup.Cgroup, plane *limit.DataPlane) (Outcome, error) {
	started := time.Now()
	status, err := runner(ctx, group)
	if err != nil {
		return Outcome{}, err
	}
	return account(plane, c, Outcome{Status: status, Elapsed: time.Since(started)})
}

// impose puts the limits on the cgroup.
func impose(plane *limit.DataPlane, group cgroup.Cgroup, c Command) error {
	id, err := group.ID()
	if err != nil {
		return err
	}
	if err := plane.AssignCgroup(id, 0); err != nil {
		return err
	}
	for direction, l := range c.Limits {
		if err := plane.Set(0, direction, *l); err != nil {
			return fault.Wrap(fmt.Errorf("limit %s: %w", direction, err), fault.Usage, "choose another rate")
		}
	}
	return plane.Attach(group.Path)
}

func account(plane *limit.DataPlane, c Command, out Outcome) (Outcome, error) {
	out.Counted = map[limit.Direction]limit.Counters{}
	for direction := range c.Limits {
		counted, err := plane.Counters(0, direction)
		if err != nil {
			return out, err
		}
		out.Counted[direction] = counted
	}
	return out, nil
}
