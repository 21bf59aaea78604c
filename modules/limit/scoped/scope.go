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

// Scope is a cgroup with limits and treatments. They end with Close or with the process.
type Scope struct {
	Group   cgroup.Cgroup
	id      uint64 // of the cgroup
	run     *Running
	file    *os.File // locked registry entry
	treated []io.Closer
	plane   *limit.DataPlane // nil without limits
	keeper  *keeper.Keeper   // stopped last; nil if no sockets need a rescue
}

// Requester is the process and user that requested a scope.
type Requester struct {
	PID  int
	User *uint32 // nil without a lender
}

// NewScope creates a cgroup below parent and applies the limits and treatments of c.
func NewScope(ctx context.Context, parent cgroup.Cgroup, c Command, by Requester) (h *Scope, err error) {
	h = &Scope{}
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

// limit applies the limits to the cgroup.
func (h *Scope) limit(c Command) (err error) {
	if h.plane, err = limit.Load(1); err != nil {
		return err
	}
	if err := applyLimits(h.plane, h.Group, c); err != nil {
		return err
	}
	h.run.Counts, err = h.plane.CountsID()
	return err
}

// Rescuer is a limit or treatment that changes open sockets. Rescue returns [sockets.ErrNoIterator]
// if the kernel cannot restore them after the death of this process.
type Rescuer interface {
	Rescue() (sockets.Rescue, error)
}

// Counts is a treatment with counters that other processes can read.
type Counts interface {
	CountsID() (ebpf.MapID, error)
}

// keep starts a keeper that restores open sockets when this process ends, also by SIGKILL.
func (h *Scope) keep(ctx context.Context, c Command) (err error) {
	var all []Rescuer
	if h.plane != nil {
		all = append(all, h.plane)
	}
	for _, one := range h.treated {
		if rescuer, does := one.(Rescuer); does {
			all = append(all, rescuer)
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
			cannot = err // for example without the privilege to open programs by id
		}
	}
	if cannot != nil {
		c.notify("if Weir is killed (kill -9), open connections keep their current pace and receive window: %v", cannot)
	}
	return nil
}

// applyLimits applies the limits to the cgroup.
func applyLimits(plane *limit.DataPlane, group cgroup.Cgroup, c Command) error {
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

// Counted returns the counters of the limited directions.
func (h *Scope) Counted() (map[limit.Direction]limit.Counters, error) {
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

// Close ends the limits and treatments, and removes the cgroup if it is empty. Otherwise its
// processes continue, and [RemoveStale] removes it after their end.
func (h *Scope) Close() (err error) {
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

// Gone removes the cgroup if it is empty, and reports whether it no longer exists. A user may have
// created another cgroup at its path, which stays.
func (h *Scope) Gone() bool {
	if id, err := h.Group.ID(); err != nil || id != h.id {
		return true
	}
	return h.run.remove() == nil
}
