// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"weir/kernel/cgroup"
	"weir/kernel/netns"
)

var swept sync.Once

// sweepOnce removes the remains of killed test processes, at its first use in this process. If one
// cannot be removed, the test logs it and continues.
func sweepOnce(t testing.TB) {
	swept.Do(func() {
		if removed, err := sweep(); len(removed) > 0 || err != nil {
			t.Logf("left by test processes that were killed: removed %q, %v", removed, err)
		}
	})
}

// sweep removes the namespaces, cgroups and BPF file systems of test processes that ended without
// their cleanups, by a signal or by go test's timeout, and returns their names.
func sweep() (removed []string, err error) {
	var errs []error
	take := func(name string, remove func() error) {
		if !ownerless(name) {
			return
		}
		err := remove()
		if err == nil {
			removed = append(removed, name)
		}
		errs = append(errs, err)
	}
	names, err := netns.List(ownPrefix)
	errs = append(errs, err)
	for _, name := range names {
		take(name, func() error { return netns.Remove(name) })
	}
	if root, err := cgroup.Root(); err == nil { // no hierarchy, no cgroups
		paths, _ := filepath.Glob(filepath.Join(root, ownPrefix+"*")) // the pattern is well-formed
		for _, path := range paths {
			take(filepath.Base(path), func() error { return removeTree(path) })
		}
	}
	mounts, err := os.ReadFile("/proc/self/mounts") // proc_pid_mounts(5): source, folder
	errs = append(errs, err)
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		take(fields[0], func() error { return unix.Unmount(fields[1], 0) })
	}
	return removed, errors.Join(errs...)
}

// ownerless reports whether the process in a name has ended. A name without a process id may be
// anybody's.
func ownerless(name string) bool {
	rest, ours := strings.CutPrefix(name, ownPrefix)
	pid, _, found := strings.Cut(rest, "-")
	if !ours || !found || pid == "" || strings.Trim(pid, "0123456789") != "" {
		return false
	}
	_, err := os.Stat("/proc/" + pid)
	return errors.Is(err, os.ErrNotExist)
}
