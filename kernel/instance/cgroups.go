// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"weir/kernel/cgroup"
)

// cgroupPrefix begins the names of the labs' cgroups, which lie below the root of the v2 hierarchy.
const cgroupPrefix = "weir-lab-"

// cgroup returns the name of the lab's cgroup, the parent of its hosts' cgroups. The prefix is
// unique, so that all objects of a lab can be found by its id.
func (i Info) cgroup() string { return cgroupPrefix + i.ID }

// Cgroup creates the lab's cgroup. Clear removes it with its descendants.
func (i *Instance) Cgroup() (cgroup.Cgroup, error) { return cgroup.Create("", i.cgroup()) }

// clearCgroup ends the processes in the lab's cgroups, except this one, and removes the cgroups.
func (i Info) clearCgroup() error {
	root, err := cgroup.Root()
	if err != nil {
		return nil // without the hierarchy there are none
	}
	return removeTree(filepath.Join(root, i.cgroup()))
}

func removeTree(path string) error {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	inner, err := filepath.Glob(filepath.Join(path, "*", "cgroup.procs"))
	if err != nil {
		return fmt.Errorf("list cgroups: %w", err)
	}
	var errs []error
	for _, procs := range inner {
		errs = append(errs, cgroup.Cgroup{Path: filepath.Dir(procs)}.End())
	}
	return errors.Join(append(errs, cgroup.Cgroup{Path: path}.End())...)
}

var labCgroup = regexp.MustCompile(`^weir-lab-[0-9a-f]{6}$`)

// sweepOrphanCgroups removes the cgroups of labs without a directory and without a process.
func sweepOrphanCgroups(age time.Duration) (removed []string, err error) {
	root, err := cgroup.Root()
	if err != nil {
		return nil, nil // without the hierarchy there are none
	}
	paths, err := filepath.Glob(filepath.Join(root, cgroupPrefix+"*"))
	if err != nil {
		return nil, fmt.Errorf("list cgroups: %w", err)
	}
	for _, path := range paths {
		name := filepath.Base(path)
		info, err := os.Stat(path)
		if err != nil || !labCgroup.MatchString(name) || time.Since(info.ModTime()) < age {
			continue
		}
		if _, err := os.Stat(filepath.Join(Root(), strings.TrimPrefix(name, cgroupPrefix))); !errors.Is(err, os.ErrNotExist) {
			continue
		}
		inner, _ := filepath.Glob(filepath.Join(path, "*", "cgroup.procs")) // the pattern is well-formed
		for _, procs := range inner {
			_ = os.Remove(filepath.Dir(procs)) // one with a process stays, and so does the lab's
		}
		if os.Remove(path) == nil {
			removed = append(removed, name)
		}
	}
	return removed, nil
}
