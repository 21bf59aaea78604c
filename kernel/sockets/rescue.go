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

// Rescue is what another process must know to set the sockets of a cgroup free once the process
// that has the programs has died.
type Rescue struct {
	Free   ebpf.ProgramID `json:"free"`     // an iterator that sets sockets free
	Steers ebpf.ProgramID `json:"steers"`   // the sockops program that does not, while it is attached
	Cgroup string         `json:"attached"` // path of where it is
}

// NewRescue is the rescue of sockets that a sockops program, attached to the cgroup at path,
// steers. The error is ErrNoIterator where free is nil, since the kernel has not loaded it.
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

// Open opens the iterator, which then outlives the process that has loaded it.
func (r Rescue) Open() (*ebpf.Program, error) {
	program, err := ebpf.NewProgramFromID(r.Free)
	if err != nil {
		return nil, fmt.Errorf("open program that sets sockets free: %w", err)
	}
	return program, nil
}

// Ended says whether sockets are steered no more: the kernel ends attachments of a process in its
// own time, and those of a cgroup with it.
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
		return true, nil // it was removed meanwhile
	}
	if err != nil {
		return false, fmt.Errorf("look for programs at %s: %w", r.Cgroup, err)
	}
	return !slices.ContainsFunc(attached.Programs, func(one link.AttachedProgram) bool { return one.ID == r.Steers }), nil
}
