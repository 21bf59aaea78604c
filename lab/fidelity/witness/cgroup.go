// SPDX-License-Identifier: Apache-2.0

package witness

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/cilium/ebpf"
	hook "github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"weir/kernel/cgroup"
)

// surroundings holds outside influences on the sockets of the measuring process: its cgroup, and
// programs of it and its ancestors.
type surroundings struct {
	path     string
	programs [][]ebpf.ProgramID // by the hooks of cgroupHooks
}

// cgroupHooks lists the hooks that can change the behaviour of sockets.
var cgroupHooks = []ebpf.AttachType{
	ebpf.AttachCGroupInetEgress, ebpf.AttachCGroupInetIngress, ebpf.AttachCGroupSockOps,
	ebpf.AttachCGroupInetSockCreate, ebpf.AttachCGroupInet4Connect, ebpf.AttachCGroupInet6Connect,
	ebpf.AttachCGroupUDP4Sendmsg, ebpf.AttachCGroupUDP6Sendmsg, ebpf.AttachCGroupGetsockopt, ebpf.AttachCGroupSetsockopt,
}

// lookAround returns nil without cgroup v2, and so without such programs.
func lookAround() (*surroundings, error) {
	const effective = 1 // BPF_F_QUERY_EFFECTIVE: those of the cgroups above, too
	path, err := cgroup.Own()
	if err != nil {
		return nil, nil // nothing to check
	}
	dir, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("look at the programs of own cgroup: %w", err)
	}
	defer func() { _ = dir.Close() }()
	s := &surroundings{path: path}
	for _, kind := range cgroupHooks {
		var ids []ebpf.ProgramID
		found, err := hook.QueryPrograms(hook.QueryOptions{Target: int(dir.Fd()), Attach: kind, QueryFlags: effective})
		switch {
		case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, unix.EINVAL):
		case err != nil:
			return nil, fmt.Errorf("look at the programs of own cgroup: %w", err)
		default:
			for _, p := range found.Programs {
				ids = append(ids, p.ID)
			}
		}
		s.programs = append(s.programs, ids)
	}
	return s, nil
}

// changes describes the changes since the start.
func (s *surroundings) changes() (words []string, err error) {
	if s == nil {
		return nil, nil
	}
	now, err := lookAround()
	switch {
	case err != nil:
		return nil, err
	case now == nil || now.path != s.path:
		return []string{"the measuring process was moved to another cgroup"}, nil
	}
	for i, kind := range cgroupHooks {
		if !slices.Equal(s.programs[i], now.programs[i]) {
			words = append(words, fmt.Sprintf("the measuring process's cgroup: programs of %s were %v and are %v", kind, s.programs[i], now.programs[i]))
		}
	}
	return words, nil
}
