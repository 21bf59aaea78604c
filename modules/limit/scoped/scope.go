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

	"weir/internal/direction"
	"weir/internal/fault"
	"weir/kernel/cgroup"
	"weir/kernel/sockets"
	"weir/kernel/sockets/rescuer"
	"weir/modules/limit/police"
)

// Scope is a cgroup with limits and treatments. They end with Close or with the process.
type Scope struct {
	Group   cgroup.Cgroup
	id      uint64 // of the cgroup
	run     *Running
	file    *os.File // locked registry entry
	treated []io.Closer
	plane   *police.DataPlane // nil without limits
	rescuer *rescuer.Rescuer  // stopped last; nil if no sockets need a rescue
}

// Requester is the process and user that requested a scope.
type Requester struct {
	PID  int
	User *uint32 // nil without a lender
}

// NewScope creates a cgroup below parent and applies the limits and treatments of c.
func NewScope(ctx context.Context, parent cgroup.Cgroup, c Command, by Requester) (s *Scope, err error) {
	s = &Scope{}
	if s.run, s.file, err = register(c, parent, by); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if _, err := cgroup.Create(parent.Path, prefix+s.run.ID); err != nil {
		return s, err
	}
	s.Group = cgroup.Cgroup{Path: s.run.Cgroup}
	if s.id, err = s.Group.ID(); err != nil {
		return s, err
	}
	for _, treat := range c.Treatments {
		one, err := treat(s.Group.Path)
		if err != nil {
			return s, err
		}
		s.treated = append(s.treated, one)
		if counts, does := one.(Counts); does {
			if s.run.Holds, err = counts.CountsID(); err != nil {
				return s, err
			}
		}
	}
	if len(c.Limits) > 0 {
		if err := s.limit(c); err != nil {
			return s, err
		}
	}
	if err := s.keep(ctx, c); err != nil {
		return s, err
	}
	s.run.Started = time.Now().UTC()
	return s, s.run.describe(s.file)
}

// limit applies the limits to the cgroup.
func (s *Scope) limit(c Command) (err error) {
	load := police.LoadEgress
	if c.Limits[direction.Ingress] != nil {
		load = police.Load
	}
	if s.plane, err = load(1); err != nil {
		return err
	}
	if err := applyLimits(s.plane, s.Group, c); err != nil {
		return err
	}
	s.run.Counts, err = s.plane.CountsID()
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

// keep starts a rescuer that restores open sockets when this process ends, also by SIGKILL.
func (s *Scope) keep(ctx context.Context, c Command) (err error) {
	var all []Rescuer
	if s.plane != nil {
		all = append(all, s.plane)
	}
	for _, one := range s.treated {
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
		if s.rescuer, err = rescuer.Start(ctx, rescues...); err != nil {
			cannot = err // for example without the privilege to open programs by id
		}
	}
	if cannot != nil {
		c.notify("if Weir is killed (kill -9), open connections keep their current pace and receive window: %v", cannot)
	}
	return nil
}

// applyLimits applies the limits to the cgroup.
func applyLimits(plane *police.DataPlane, group cgroup.Cgroup, c Command) error {
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
func (s *Scope) Counted() (map[direction.Direction]police.Counters, error) {
	all := map[direction.Direction]police.Counters{}
	for direction := range s.run.Limits {
		counted, err := s.plane.Counters(0, direction)
		if err != nil {
			return all, err
		}
		all[direction] = counted
	}
	return all, nil
}

// Close ends the limits and treatments, and removes the cgroup if it is empty. Otherwise its
// processes continue, and [RemoveStale] removes it after their end.
func (s *Scope) Close() (err error) {
	if s.plane != nil {
		err = s.plane.Close()
	}
	for _, one := range slices.Backward(s.treated) {
		err = errors.Join(err, one.Close())
	}
	if s.rescuer != nil {
		err = errors.Join(err, s.rescuer.Stop())
	}
	if s.Group.Path == "" || s.Gone() {
		err = errors.Join(err, os.Remove(s.run.path()))
	}
	return errors.Join(err, s.file.Close())
}

// Gone removes the cgroup if it is empty, and reports whether it no longer exists. A user may have
// created another cgroup at its path, which stays.
func (s *Scope) Gone() bool {
	if id, err := s.Group.ID(); err != nil || id != s.id {
		return true
	}
	return s.run.remove() == nil
}
