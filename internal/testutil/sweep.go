package testutil

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"weir/internal/kernel/cgroup"
	"weir/internal/kernel/netns"
)

var swept sync.Once

// sweepOnce removes what killed test processes have left, at its first use in this process. What cannot be removed is no
// fault of this test, which says so and goes on.
func sweepOnce(t testing.TB) {
	swept.Do(func() {
		if removed, err := sweep(); len(removed) > 0 || err != nil {
			t.Logf("left by test processes that were killed: removed %q, %v", removed, err)
		}
	})
}

// sweep removes the namespaces and cgroups whose test process has gone without its cleanups, as it does where it is killed
// or takes longer than go test allows, and returns their names.
func sweep() (removed []string, err error) {
	names, err := netns.List(ownPrefix)
	errs := []error{err}
	remove := func(name string, err error) {
		if err != nil {
			errs = append(errs, err)
			return
		}
		removed = append(removed, name)
	}
	for _, name := range names {
		if ownerless(name) {
			remove(name, netns.Remove(name))
		}
	}
	if root, err := cgroup.Root(); err == nil { // no hierarchy, no cgroups
		paths, _ := filepath.Glob(filepath.Join(root, ownPrefix+"*")) // the pattern is well-formed
		for _, path := range paths {
			if name := filepath.Base(path); ownerless(name) {
				remove(name, removeTree(path))
			}
		}
	}
	return removed, errors.Join(errs...)
}

// ownerless says whether the process that a name tells has gone. A name that tells none may be anybody's.
func ownerless(name string) bool {
	pid, _, found := strings.Cut(strings.TrimPrefix(name, ownPrefix), "-")
	if !found || pid == "" || strings.Trim(pid, "0123456789") != "" {
		return false
	}
	_, err := os.Stat("/proc/" + pid)
	return errors.Is(err, os.ErrNotExist)
}
