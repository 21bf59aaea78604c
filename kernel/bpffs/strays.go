// SPDX-License-Identifier: Apache-2.0

package bpffs

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"weir/internal/fault"
	"weir/kernel/probe"
)

// ErrForeign is returned if attached programs are pinned elsewhere.
var ErrForeign = errors.New("pinned elsewhere")

const (
	// strayTime gives the kernel time to detach the programs of a killed process; strayLook is the
	// polling interval, because there is no event.
	strayTime = 2 * time.Second
	strayLook = 10 * time.Millisecond
)

// NoStrays returns an error if programs with these names are attached to a cgroup. The caller has
// no pin of them: their pins were moved, or another Weir owns them. They remain active.
func NoStrays(root, what string, hooks []ebpf.AttachType, names ...string) error {
	for deadline := time.Now().Add(strayTime); ; time.Sleep(strayLook) {
		found, err := strays(root, hooks, names)
		if err != nil || len(found) == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return fault.New(fault.Failed, "end them with the Weir that pinned them ('weir release' where it runs), or by hand, with bpftool (Debian: apt install bpftool): "+
				"'bpftool link show' names them, and 'bpftool link detach id ID' ends one",
				"programs of %s that are %w are attached to %s, and still active: %s", what, ErrForeign, root, strings.Join(found, ", "))
		}
	}
}

// strays returns the names of the programs attached to a cgroup, and none without the right to
// query programs.
func strays(root string, hooks []ebpf.AttachType, names []string) (found []string, err error) {
	group, err := os.Open(root)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open cgroup: %w", err)
	}
	defer func() { _ = group.Close() }()
	for _, hook := range hooks {
		attached, err := link.QueryPrograms(link.QueryOptions{Target: int(group.Fd()), Attach: hook})
		// Without the right the kernel answers that queries are not supported.
		if errors.Is(err, os.ErrPermission) || errors.Is(err, ebpf.ErrNotSupported) && !probe.Capabilities()["CAP_NET_ADMIN"] {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("look for programs at %s: %w", root, err)
		}
		for _, one := range attached.Programs {
			if name := ProgramName(one.ID); slices.Contains(names, name) {
				found = append(found, name+linkOf(one.ID))
			}
		}
	}
	return found, nil
}

// linkOf describes the link of a program to a cgroup, as in " (link 7)". Queries return link ids
// for devices only.
func linkOf(program ebpf.ProgramID) string {
	all := new(link.Iterator)
	defer all.Close()
	for all.Next() {
		if info, err := all.Link.Info(); err == nil && info.Program == program && info.Cgroup() != nil {
			return fmt.Sprintf(" (link %d)", info.ID)
		}
	}
	return fmt.Sprintf(" (program %d)", program)
}

// ProgramName returns the name of a program, or "" if it has ended or this process may not query
// it.
func ProgramName(id ebpf.ProgramID) string {
	program, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return ""
	}
	defer func() { _ = program.Close() }()
	info, err := program.Info()
	if err != nil {
		return ""
	}
	return info.Name
}
