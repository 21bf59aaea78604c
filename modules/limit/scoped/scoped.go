// SPDX-License-Identifier: Apache-2.0

// Package scoped runs one command, and all it starts, under a limit.
//
// The limit lives as long as the caller, who waits for all processes that the command has started,
// whichever cgroups they have made, and for what they have written to be sent. When the caller is
// killed the command goes on without a limit, its connections with the pace and the receive windows
// that they would have had ([Steers]), and the cgroup that it leaves is removed by the next call.
package scoped

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"time"

	"weir/kernel/cgroup"
	"weir/modules/limit"
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

	lent bool // a lender holds its cgroup
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
	if err := RemoveStale(); err != nil {
		return Outcome{}, err
	}
	runner, err := c.runner()
	if err != nil {
		return Outcome{}, err
	}
	root, err := cgroup.Root()
	if err != nil {
		return Outcome{}, err
	}
	held, err := Hold(ctx, cgroup.Cgroup{Path: root}, c, Asker{PID: os.Getpid()})
	if err != nil {
		return Outcome{}, err
	}
	defer func() { err = errors.Join(err, held.Close()) }()
	started := time.Now()
	status, err := runner(ctx, held.Group)
	if err != nil {
		return Outcome{}, err
	}
	out = Outcome{Status: status, Elapsed: time.Since(started)}
	out.Counted, err = held.Counted()
	return out, err
}
