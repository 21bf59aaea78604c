// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"weir/cc"
	"weir/class"
	"weir/internal/fault"
	"weir/internal/units"
	"weir/limit/scoped"
)

// classed is the class of a command, and what was done for it.
type classed struct {
	Class string     `json:"class"`
	DSCP  class.DSCP `json:"dscp"`
	class.Counts
}

// mark marks what a cgroup sends until it is closed, which keeps the counts.
func (c *classed) mark(group string) (io.Closer, error) {
	marks, err := class.Mark(group, c.DSCP)
	return &counting{marks, c}, err
}

type counting struct {
	*class.Marked
	into *classed
}

func (c *counting) Close() (err error) {
	c.into.Counts, err = c.Counts()
	return errors.Join(err, c.Marked.Close())
}

// String says in words what was done.
func (c *classed) String() string {
	text := fmt.Sprintf("class %s: sent %s in %s; %d marked with DSCP %d", c.Class, units.ByteSize(c.Octets), plural(int(c.Packets), "packet"), c.Marked, c.DSCP)
	if c.Failed > 0 {
		text += fmt.Sprintf(", %d could not be marked", c.Failed)
	}
	return text
}

// classFlag is the class that --class gives a command, and what it has done to it; none without it.
func (a *app) classFlag(text string) (*classed, []scoped.Treatment, error) {
	if text == "" {
		return nil, nil, nil
	}
	dscp, err := class.ParseDSCP(text)
	if err != nil {
		return nil, nil, fault.New(fault.Usage, "as in --class lbe", "--class: %w", err)
	}
	given := &classed{Class: text, DSCP: dscp}
	all := []scoped.Treatment{given.mark}
	if dscp == class.LowEffort || dscp == class.Scavenger {
		all = append(all, a.scavenge)
	}
	return given, all, nil
}

// scavenge gives the connections of a cgroup a congestion control that takes what others leave.
// Without it the command is marked all the same, and routers that know its class hold it back.
func (a *app) scavenge(group string) (io.Closer, error) {
	installed, err := installScavenger()
	if err == nil {
		if err = installed.Attach(group); err == nil {
			return installed, nil
		}
		_ = installed.Close()
	}
	if fault.Of(err) == fault.Permission {
		return nil, err
	}
	a.say("%s", keepsControl(err))
	return nothing{}, nil
}

func installScavenger() (*cc.Installed, error) {
	return cc.Install("scavenger", cc.Options{Name: fmt.Sprintf("weir_lbe%d", os.Getpid())})
}

// keepsControl says what a command without the scavenger is like.
func keepsControl(err error) string {
	return fmt.Sprintf("its TCP connections keep the host's congestion control, which takes its part where nobody knows its class: %v", err)
}

type nothing struct{}

func (nothing) Close() error { return nil }
