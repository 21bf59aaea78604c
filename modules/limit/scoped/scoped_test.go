// SPDX-License-Identifier: Apache-2.0

package scoped

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/direction"
	"weir/internal/fault"
	"weir/kernel/cgroup"
	"weir/kernel/testutil"
	"weir/modules/limit/police"
)

// capped is an egress limit.
func capped() map[direction.Direction]*police.Limit {
	return map[direction.Direction]*police.Limit{direction.Egress: {Rate: 1e6}}
}

// left lists the cgroups of runs below this process's own cgroup and below the root.
func left(t *testing.T) (all []string) {
	t.Helper()
	root, err := cgroup.Root()
	if err != nil {
		testutil.Need(t, "cgroup v2", err)
	}
	own, err := cgroup.Own()
	if err != nil {
		t.Fatal(err)
	}
	for _, parent := range []string{root, own} {
		paths, err := filepath.Glob(filepath.Join(parent, prefix+"*"))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, paths...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func TestRunReturnsTheCommandsStatusAndRemovesItsCgroup(t *testing.T) {
	testutil.NeedRoot(t)
	for _, test := range []struct {
		name   string
		script string
		want   int
	}{
		{"success", "exit 0", 0},
		{"a status", "exit 7", 7},
		{"a signal", "kill -TERM $$", 128 + 15},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := left(t)
			got, err := Run(context.Background(), Command{Args: []string{"sh", "-c", test.script}, Limits: capped()})
			if err != nil {
				t.Fatal(err)
			}
			if got.Status != test.want {
				t.Errorf("status %d, want %d", got.Status, test.want)
			}
			for _, path := range left(t) {
				if !slices.Contains(before, path) {
					t.Errorf("left: %s", path)
				}
			}
		})
	}
}

// The limit lasts until all limited processes have ended.
func TestRunWaitsForDescendants(t *testing.T) {
	testutil.NeedRoot(t)
	mark := filepath.Join(t.TempDir(), "mark")
	var said []string
	_, err := Run(context.Background(), Command{
		Args:   []string{"sh", "-c", "(sleep 0.3; echo done > " + mark + ") & exit 0"},
		Limits: capped(),
		Notify: besidesKeeping(func(what string) { said = append(said, what) }),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(mark); err != nil || len(said) != 1 || !strings.Contains(said[0], " descendant") {
		t.Errorf("returned before the background process ended (%v), said %q", err, said)
	}
}

func TestRunEndsEverythingWhenItIsInterrupted(t *testing.T) {
	testutil.NeedRoot(t)
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	got, err := Run(ctx, Command{Args: []string{"sh", "-c", "sleep 60 & sleep 60"}, Limits: capped()})
	if err != nil {
		t.Fatal(err)
	}
	if got.Status != 128+15 {
		t.Errorf("status %d, want that of SIGTERM", got.Status)
	}
}

func TestRunNamesACommandThatDoesNotExist(t *testing.T) {
	_, err := Run(context.Background(), Command{Args: []string{"weir-no-such-command"}, Limits: capped()})
	if fault.Of(err) != fault.Usage || !strings.Contains(err.Error(), "weir-no-such-command") {
		t.Errorf("got %v", err)
	}
}

// Cgroups created by the command, and their processes, belong to the command.
func TestRunWaitsForCgroupsThatTheCommandHasMade(t *testing.T) {
	testutil.NeedRoot(t)
	mark := filepath.Join(t.TempDir(), "mark")
	root, err := cgroup.Root()
	if err != nil {
		testutil.Need(t, "cgroup v2", err)
	}
	before := left(t)
	script := "own=" + root + "$(sed -n s/^0:://p /proc/self/cgroup); mkdir -p $own/a/b; (echo 0 > $own/a/b/cgroup.procs; sleep 0.3; echo done > " + mark + ") &"
	if _, err := Run(t.Context(), Command{Args: []string{"bash", "-c", script}, Limits: capped()}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(mark); err != nil {
		t.Errorf("returned before the process in the inner cgroup has ended: %v", err)
	}
	for _, path := range left(t) {
		if !slices.Contains(before, path) {
			t.Errorf("left: %s", path)
		}
	}
}

func TestStaleCgroupsAreRemovedByTheNextRun(t *testing.T) {
	testutil.NeedRoot(t)
	t.Setenv("WEIR_RUN_DIR", t.TempDir())
	// A process id above the kernel's largest belongs to no process.
	for _, name := range []string{"4194999", "0123456789abcdef"} {
		stale, err := cgroup.Create("", prefix+name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := cgroup.Create(stale.Path, "inner"); err != nil {
			t.Error(err)
		}
		past := time.Now().Add(-2 * orphanAge)
		if err := errors.Join(os.Chtimes(stale.Path, past, past), RemoveStale()); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(stale.Path); !os.IsNotExist(err) {
			t.Errorf("the stale cgroup is still there: %v, %v", err, stale.RemoveAll())
		}
	}
}
