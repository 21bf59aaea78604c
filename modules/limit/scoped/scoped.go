// SPDX-License-Identifier: Apache-2.0

// Package scoped runs one command and all its descendants under a limit.
//
// The command's cgroup is below the cgroup of its caller, or of the running process, so that all
// limits there still apply. The limit lasts as long as the caller, which waits until all processes
// of the command have ended, in whichever cgroups, and until their sockets have sent their data. If
// the caller is killed, the command continues without a limit, its connections get their own pace
// and receive windows back ([Rescuer]), and the next call removes the cgroup.
package scoped

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"time"

	"weir/internal/direction"
	"weir/modules/limit/police"
)

// Treatment applies a treatment other than a limit to the traffic of a cgroup, until it is closed.
type Treatment func(cgroup string) (io.Closer, error)

// Command is a command and its limits. A direction without a limit is unlimited.
type Command struct {
	Args   []string
	Limits map[direction.Direction]*police.Limit
	// Treatments are applied to the cgroup before the command starts; with them, Limits may be
	// empty.
	Treatments []Treatment
	Class      string     // name of the class of service that Treatments apply; "" for none
	User       *user.User // runs the command; nil means the caller
	// PID is a running process, in place of Args: it and its descendants are limited until they end
	// or ctx ends.
	PID int
	// Signals are forwarded to a running command, which then decides when it ends; ctx no longer
	// ends it. nil for none.
	Signals <-chan os.Signal
	// Notify receives progress messages while the caller waits; nil for none.
	Notify func(message string)
	// Active is called when the limits are active, before the command starts; nil for none.
	Active func(map[direction.Direction]Mode)

	lent bool // the cgroup belongs to a lender
}

func (c Command) notify(format string, args ...any) {
	if c.Notify != nil {
		c.Notify(fmt.Sprintf(format, args...))
	}
}

// Mode is how a direction is limited, for reports.
type Mode struct {
	Mode   string `json:"mode"`             // police.ModePolice, police.ModeShape or ModeShadow
	Reason string `json:"reason,omitempty"` // of a policed direction
}

// ModeShadow is the mode of a limit that only counts.
const ModeShadow = "shadow"

// active calls Active with the modes of the limits.
func (c Command) active() {
	if c.Active == nil || len(c.Limits) == 0 {
		return
	}
	modes := map[direction.Direction]Mode{}
	for d, l := range c.Limits {
		modes[d] = Mode{Mode: police.ModePolice}
		if l.Shadow {
			modes[d] = Mode{Mode: ModeShadow}
		}
	}
	c.Active(modes)
}

// Outcome is the exit status of a command and its counters.
type Outcome struct {
	Status  int // the command's exit status; 128 + signal if a signal ended it
	Elapsed time.Duration
	Counted map[direction.Direction]police.Counters // per limited direction
}

// Run runs the command until it and all its descendants have ended. When ctx ends, they are
// terminated, unless Signals replaces ctx.
func Run(ctx context.Context, c Command) (out Outcome, err error) {
	if err := RemoveStale(); err != nil {
		return Outcome{}, err
	}
	runner, err := c.runner()
	if err != nil {
		return Outcome{}, err
	}
	parent, err := c.parent()
	if err != nil {
		return Outcome{}, err
	}
	scope, err := NewScope(ctx, parent, c, Requester{PID: os.Getpid()})
	if err != nil {
		return Outcome{}, err
	}
	defer func() { err = errors.Join(err, scope.Close()) }()
	c.reportInherited()
	c.active()
	started := time.Now()
	status, err := runner(ctx, scope.Group)
	if err != nil {
		return Outcome{}, err
	}
	out = Outcome{Status: status, Elapsed: time.Since(started)}
	out.Counted, err = scope.Counted()
	return out, err
}
