// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"

	"weir/cc"
	"weir/class"
	"weir/internal/fault"
	"weir/limit/scoped"
)

// classFlag is what --class has done to a command; none without it.
func (a *app) classFlag(text string) ([]scoped.Treatment, error) {
	if text == "" {
		return nil, nil
	}
	dscp, err := class.ParseDSCP(text)
	if err != nil {
		return nil, fault.New(fault.Usage, "as in --class lbe", "--class: %w", err)
	}
	all := []scoped.Treatment{func(group string) (io.Closer, error) { return class.Mark(group, dscp) }}
	if dscp == class.LowEffort || dscp == class.Scavenger {
		all = append(all, a.scavenge)
	}
	return all, nil
}

// scavenge gives the connections of a cgroup a congestion control that takes what others leave.
// Without it the command is marked all the same, and routers that know its class hold it back.
func (a *app) scavenge(group string) (io.Closer, error) {
	installed, err := cc.Install("scavenger", cc.Options{Name: fmt.Sprintf("weir_lbe%d", os.Getpid())})
	if err == nil {
		if err = installed.Attach(group); err == nil {
			return installed, nil
		}
		_ = installed.Close()
	}
	if fault.Of(err) == fault.Permission {
		return nil, err
	}
	a.say("its TCP connections keep the host's congestion control, which takes its part where nobody knows its class: %v", err)
	return nothing{}, nil
}

type nothing struct{}

func (nothing) Close() error { return nil }
