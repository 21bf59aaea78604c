// SPDX-License-Identifier: Apache-2.0

package scoped

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/fault"
	"weir/internal/kernel/cgroup"
	"weir/internal/testutil"
	"weir/limit"
)

// capped is a limit on what is sent.
func capped() map[limit.Direction]*limit.Limit {
	return map[limit.Direction]*limit.Limit{limit.Egress: {Rate: 1e6}}
}

// left lists this process's own cgroups of package scoped.
func left(t *testing.T) []string {
	t.Helper()
	root, err := cgroup.Root()
	if err != nil {
		testutil.Need(t, "cgroup v2", err)
	}
	paths, err := filepath.Glob(filepath.Join(root, prefix+"*"))
	if err != nil {
		t.Fatal(err)
	}
	return paths
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
			before := len(left(t))
			got, err := Run(context.Background(), Command{Args: []string{"sh", "-c", test.script}, Limits: capped()})
			if err != nil {
				t.Fatal(err)
			}
			if got.Status != test.want {
				t.Errorf("status %d, want %d", got.Status, test.want)
			}
			if after := left(t); len(after) != before {
				t.Errorf("cgroups left: %v", after)
			}
		})
	}
}

// The limit must not end before what it limits.
func TestRunWaitsForWhatTheCommandHasStarted(t *testing.T) {
	testutil.NeedRoot(t)
	mark := filepath.Join(t.TempDir(), "mark")
	waited := 0
	_, err := Run(context.Background(), Command{
		Args:    []string{"sh", "-c", "(sleep 0.3; echo done > " + mark + ") & exit 0"},
		Limits:  capped(),
		Waiting: func(n int) { waited = n },
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(mark); err != nil || waited == 0 {
		t.Errorf("returned before the background process ended (%v), told of %d", err, waited)
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

func TestStaleCgroupsAreRemovedByTheNextRun(t *testing.T) {
	testutil.NeedRoot(t)
	// A process id above the kernel's largest belongs to no process.
	stale, err := cgroup.Create("", prefix+"4194999")
	if err != nil {
		t.Fatal(err)
	}
	if err := removeStale(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(stale.Path); !os.IsNotExist(err) {
		_ = stale.Remove()
		t.Errorf("the stale cgroup is still there: %v", err)
	}
}
