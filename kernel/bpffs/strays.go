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

// ErrElsewhere says that programs are in force whose pins are somewhere else.
var ErrForeign = errors.New("pinned elsewhere")

const (
	// strayTime is for the kernel, which ends the attachments of a process that was killed in its
	// own time, and strayLook the time between two looks, for it does not tell.
	strayTime = 2 * time.Second
	strayLook = 10 * time.Millisecond
)

// NoStrays says that programs of these names are attached to a cgroup, for a caller that has no pin
// of them: somebody has moved their pins away, or another Weir has them. They do what they did.
func NoStrays(root, what string, hooks []ebpf.AttachType, names ...string) error {
	for deadline := time.Now().Add(strayTime); ; time.Sleep(strayLook) {
		found, err := strays(root, hooks, names)
		if err != nil || len(found) == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return fault.New(fault.Failed, "end them with the Weir that has pinned them ('weir release' where it runs), or by hand, with bpftool (Debian: apt install bpftool): "+
				"'bpftool link show' names them, and 'bpftool link detach id ID' ends one",
				"programs of %s that are %w are attached to %s, and still in force: %s", what, ErrForeign, root, strings.Join(found, ", "))
		}
	}
}

// strays names the programs that are attached to a cgroup. One without the right to see programs
// sees none.
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
		// Who lacks the right is told that queries are not supported, whether they are or not.
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

// linkOf names the attachment of a program to a cgroup, as in " (link 7)"; a query tells it to
// programs that are attached to devices alone.
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

// ProgramName is the name of a program; "" for one that has ended meanwhile, or where this process
// may not know.
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
