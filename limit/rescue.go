// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// Rescue is what another process must know to set sockets free once the process that has the data
// plane has died.
type Rescue struct {
	Free   ebpf.ProgramID `json:"free"`     // sets sockets free
	Paces  ebpf.ProgramID `json:"paces"`    // paces them, while it is attached
	Cgroup string         `json:"attached"` // path
}

// Rescue is that of an attached data plane. The error is ErrNoIterator where sockets cannot be set
// free.
func (p *DataPlane) Rescue() (r Rescue, err error) {
	if p.objects.LimitFree == nil {
		return r, ErrNoIterator
	}
	r.Cgroup = p.path
	for id, program := range map[*ebpf.ProgramID]*ebpf.Program{&r.Free: p.objects.LimitFree, &r.Paces: p.objects.LimitSockops} {
		info, err := program.Info()
		if err != nil {
			return r, fmt.Errorf("read limit programs: %w", err)
		}
		*id, _ = info.ID()
	}
	return r, nil
}

// Open opens as much of the data plane as Free needs, so that it outlives the other process.
func (r Rescue) Open() (*DataPlane, error) {
	program, err := ebpf.NewProgramFromID(r.Free)
	if err != nil {
		return nil, permission(fmt.Errorf("open limit program: %w", err))
	}
	p := &DataPlane{path: r.Cgroup}
	p.objects.LimitFree = program
	return p, nil
}

// Ended says whether sockets are paced no more: the kernel ends attachments of a process in its own
// time, and those of a cgroup with it.
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
	if err != nil {
		return false, permission(fmt.Errorf("look for programs at %s: %w", r.Cgroup, err))
	}
	return !slices.ContainsFunc(attached.Programs, func(one link.AttachedProgram) bool { return one.ID == r.Paces }), nil
}
