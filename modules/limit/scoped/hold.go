// SPDX-License-Identifier: Apache-2.0

package scoped

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/cilium/ebpf"

	"weir/internal/fault"
	"weir/kernel/cgroup"
	"weir/kernel/sockets"
	"weir/kernel/sockets/keeper"
	"weir/modules/limit"
)

// Held is a cgroup with limits and treatments on it, which end when it is closed, or with the
// process.
type Held struct {
	Group   cgroup.Cgroup
	id      uint64 // of the cgroup
	run     *Running
	file    *os.File // of the registry
	treated []io.Closer
	plane   *limit.DataPlane // nil without limits
	keeper  *keeper.Keeper   // ends after all of them; nil where no sockets are to be set free
}

// Asker is who asked for it, as the registry tells.
type Asker struct {
	PID  int
	User *uint32 // nil is whoever holds it
}

// Hold makes a cgroup below a parent and does to it what the command is to have done.
func Hold(ctx context.Context, parent cgroup.Cgroup, c Command, by Asker) (h *Held, err error) {
	h = &Held{}
	if h.run, h.file, err = register(c, parent, by); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.Close())
		}
	}()
	if _, err := cgroup.Create(parent.Path, prefix+h.run.ID); err != nil {
		return h, err
	}
	h.Group = cgroup.Cgroup{Path: h.run.Cgroup}
	if h.id, err = h.Group.ID(); err != nil {
		return h, err
	}
	for _, treat := range c.Treatments {
		one, err := treat(h.Group.Path)
		if err != nil {
			return h, err
		}
		h.treated = append(h.treated, one)
		if counts, does := one.(Counts); does {
			if h.run.Holds, err = counts.CountsID(); err != nil {
				return h, err
			}
		}
	}
	if len(c.Limits) > 0 {
		if err := h.limit(c); err != nil {
			return h, err
		}
	}
	if err := h.keep(ctx, c); err != nil {
		return h, err
	}
	h.run.Started = time.Now().UTC()
	return h, h.run.describe(h.file)
}

// limit puts the limits on the cgroup.
func (h *Held) limit(c Command) (err error) {
	if h.plane, err = limit.Load(1); err != nil {
		return err
	}
	if err := impose(h.plane, h.Group, c); err != nil {
		return err
	}
	h.run.Counts, err = h.plane.CountsID()
	return err
}

// Steers is a limit or a treatment that leaves something with open sockets where its process dies:
// [sockets.ErrNoIterator] where nothing can be done about that.
type Steers interface {
	Rescue() (sockets.Rescue, error)
}

// Counts is a treatment whose counts others can read.
type Counts interface {
	CountsID() (ebpf.MapID, error)
}

// keep has open sockets set free once all has ended, kill -9 of this process included.
func (h *Held) keep(ctx context.Context, c Command) (err error) {
	var all []Steers
	if h.plane != nil {
		all = append(all, h.plane)
	}
	for _, one := range h.treated {
		if steers, does := one.(Steers); does {
			all = append(all, steers)
		}
	}
	var rescues []sockets.Rescue
	var cannot error
	for _, one := range all {
		rescue, err := one.Rescue()
		if errors.Is(err, sockets.ErrNoIterator) {
			cannot = err
			continue
		}
		if err != nil {
			return err
		}
		rescues = append(rescues, rescue)
	}
	if len(rescues) > 0 {
		if h.keeper, err = keeper.Start(ctx, rescues...); err != nil {
			cannot = err // as without the right to open programs by their ids
		}
	}
	if cannot != nil {
		c.say("should Weir be killed (kill -9), open connections keep the pace and the receive window that they have then: %v", cannot)
	}
	return nil
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

// Counted is what passed so far, of the directions that are limited.
func (h *Held) Counted() (map[limit.Direction]limit.Counters, error) {
	all := map[limit.Direction]limit.Counters{}
	for direction := range h.run.Limits {
		counted, err := h.plane.Counters(0, direction)
		if err != nil {
			return all, err
		}
		all[direction] = counted
	}
	return all, nil
}

// Close ends the limits and treatments, and removes the cgroup if nobody is left in it. Processes
// that are go on, and the cgroup is removed by [RemoveStale] once they have ended.
func (h *Held) Close() (err error) {
	if h.plane != nil {
		err = h.plane.Close()
	}
	for _, one := range slices.Backward(h.treated) {
		err = errors.Join(err, one.Close())
	}
	if h.keeper != nil {
		err = errors.Join(err, h.keeper.Stop())
	}
	if h.Group.Path == "" || h.Gone() {
		err = errors.Join(err, os.Remove(h.run.path()))
	}
	return errors.Join(err, h.file.Close())
}

// Gone says whether the cgroup has gone, and removes it if nobody is left in it. One that a user
// has put in its place is his own.
func (h *Held) Gone() bool {
	if id, err := h.Group.ID(); err != nil || id != h.id {
		return true
	}
	return h.run.remove() == nil
}
