// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf/link"

	"weir/kernel/netns"
	"weir/modules/offload/flower"
	"weir/modules/offload/live"
	"weir/modules/offload/xdp"
)

// Able returns the missing kernel feature of a backend, or nil.
func Able(backend string) error { return able(&Treatment{Backend: backend}) }

// Attached is an unpinned fast path of a network namespace for an experiment with static routes.
// XDP ends with the process, filters with the namespace.
type Attached struct {
	programs *xdp.Table
	links    []link.Link
	filters  *flower.Installed
}

// forever is longer than any experiment.
const forever = 365 * 24 * time.Hour

// Attach forwards packets of a namespace by a treatment and its current routing.
func Attach(ns *netns.Namespace, t *Treatment) (a *Attached, err error) {
	s, err := live.Read(ns)
	if err != nil {
		return nil, err
	}
	p, err := planner(t, s)
	if err != nil {
		return nil, err
	}
	a = &Attached{}
	if t.filters() {
		a.filters, err = flower.Attach(ns, p, t.mode(), forever)
		return a, err
	}
	if a.programs, err = xdp.New(ns, p); err != nil {
		return nil, err
	}
	if err = a.programs.Renew(forever); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	for _, port := range p.Ports() {
		l, _, err := a.programs.Attach(port, nil)
		if err != nil {
			return nil, errors.Join(err, a.Close())
		}
		a.links = append(a.links, l)
	}
	return a, nil
}

// Forwarded returns the number of forwarded packets.
func (a *Attached) Forwarded() (uint64, error) {
	if a.filters != nil {
		return a.filters.Forwarded()
	}
	c, err := a.programs.Counts()
	return c.Forwarded.Packets, err
}

// Close ends the fast path; filters stay until their namespace ends.
func (a *Attached) Close() (err error) {
	for _, l := range a.links {
		err = errors.Join(err, l.Close())
	}
	if a.programs != nil {
		a.programs.Close()
	}
	if a.filters != nil {
		a.filters.Close()
	}
	if err != nil {
		return fmt.Errorf("end the fast path: %w", err)
	}
	return nil
}
