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

// surroundings are what is done to the sockets of the measuring process from outside any namespace:
// its cgroup, and the programs there and above it, which may drop what they send, or clamp TCP.
type surroundings struct {
	path     string
	programs [][]ebpf.ProgramID // by the hooks of cgroupHooks
}

// cgroupHooks are those that can change what a socket does.
var cgroupHooks = []ebpf.AttachType{
	ebpf.AttachCGroupInetEgress, ebpf.AttachCGroupInetIngress, ebpf.AttachCGroupSockOps,
	ebpf.AttachCGroupInetSockCreate, ebpf.AttachCGroupInet4Connect, ebpf.AttachCGroupInet6Connect,
	ebpf.AttachCGroupUDP4Sendmsg, ebpf.AttachCGroupUDP6Sendmsg, ebpf.AttachCGroupGetsockopt, ebpf.AttachCGroupSetsockopt,
}

// lookAround returns nil where there is no cgroup v2, and so none of these programs.
func lookAround() (*surroundings, error) {
	const effective = 1 // BPF_F_QUERY_EFFECTIVE: those of the cgroups above, too
	path, err := cgroup.Own()
	if err != nil {
		return nil, nil // nothing is there to look at
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

// changes says what is not as it was.
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
