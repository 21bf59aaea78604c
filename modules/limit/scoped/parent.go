// SPDX-License-Identifier: Apache-2.0

package scoped

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"weir/core/match"
	"weir/internal/fault"
	"weir/kernel/cgroup"
)

// parent returns the cgroup of the caller, or of the running process. The command stays below it:
// a cgroup elsewhere would take it out of the limits and the control of its unit.
func (c Command) parent() (group cgroup.Cgroup, err error) {
	if c.PID != 0 {
		group, err = cgroupOf(c.PID)
	} else {
		group.Path, err = cgroup.Own()
	}
	if err != nil {
		return group, err
	}
	return group, CanHold(group)
}

// CanHold returns an error if a cgroup cannot have a limited cgroup below it.
func CanHold(group cgroup.Cgroup) error {
	root, err := cgroup.Root()
	if err != nil {
		return err
	}
	if tooDeep(group.Path, root) {
		return fault.New(fault.Usage, "start it in a cgroup closer to the root", "cgroups below %s are too deep to be matched", group.Path)
	}
	kind, err := os.ReadFile(filepath.Join(group.Path, "cgroup.type"))
	if errors.Is(err, fs.ErrNotExist) { // the root of the hierarchy
		return nil
	}
	if err != nil {
		return fmt.Errorf("read type of cgroup: %w", err)
	}
	if text := strings.TrimSpace(string(kind)); text != "domain" {
		return fault.New(fault.Usage, "start it in a cgroup of type domain", "cgroup %s has the type %s, in which no process can move to a new cgroup", group.Path, text)
	}
	return nil
}

// tooDeep reports whether the data planes cannot match cgroups below parent.
func tooDeep(parent, root string) bool {
	below := strings.Trim(strings.TrimPrefix(parent, root), "/")
	return below != "" && strings.Count(below, "/")+3 > match.MaxCgroupLevels
}
