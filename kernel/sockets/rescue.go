// SPDX-License-Identifier: Apache-2.0

package sockets

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// Rescue holds the data with which another process can reset the sockets of a cgroup after the
// owner of the programs has died.
type Rescue struct {
	Free   ebpf.ProgramID `json:"free"`     // an iterator that resets sockets
	Steers ebpf.ProgramID `json:"steers"`   // the steering sockops program
	Cgroup string         `json:"attached"` // path of its cgroup
}

// NewRescue returns the rescue for a sockops program attached to the cgroup at path. The error is
// ErrNoIterator if free is nil because the kernel could not load it.
func NewRescue(path string, free, steers *ebpf.Program) (r Rescue, err error) {
	if free == nil {
		return r, ErrNoIterator
	}
	r.Cgroup = path
	for id, program := range map[*ebpf.ProgramID]*ebpf.Program{&r.Free: free, &r.Steers: steers} {
		info, err := program.Info()
		if err != nil {
			return r, fmt.Errorf("read socket programs: %w", err)
		}
		*id, _ = info.ID()
	}
	return r, nil
}

// Open opens the iterator, which then outlives its loader.
func (r Rescue) Open() (*ebpf.Program, error) {
	program, err := ebpf.NewProgramFromID(r.Free)
	if err != nil {
		return nil, fmt.Errorf("open program that sets sockets free: %w", err)
	}
	return program, nil
}

// Ended reports whether steering has ended. The kernel detaches the programs of a dead process some
// time later, and those of a cgroup at its removal.
func (r Rescue) Ended() (bool, error) {
	group, err := os.Open(r.Cgroup)
	if errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("open cgroup: %w", err)
	}
	defer func() { _ = group.Close() }()
	attached, err := link.QueryPrograms(link.QueryOptions{Target: int(group.Fd()), Attach: ebpf.AttachCGroupSockOps})
	if errors.Is(err, os.ErrNotExist) {
		return true, nil // removed meanwhile
	}
	if err != nil {
		return false, fmt.Errorf("look for programs at %s: %w", r.Cgroup, err)
	}
	return !slices.ContainsFunc(attached.Programs, func(one link.AttachedProgram) bool { return one.ID == r.Steers }), nil
}
