// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf/link"

	"weir/core/policy"
	"weir/kernel/testutil"
)

// attaches waits until the cgroup has these numbers of programs. The kernel detaches unreferenced
// ones asynchronously.
func attaches(t *testing.T, e *Engine, want [3]int) {
	t.Helper()
	testutil.Eventually(t, time.Minute, "the attachments", func() bool { return testutil.CountPrograms(t, e.CgroupRoot) == want })
}

// detachPin ends an attachment and leaves its pin, as bpftool can.
func detachPin(t *testing.T, path string) {
	t.Helper()
	pinned, err := link.LoadPinnedLink(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(pinned.Detach(), pinned.Close()); err != nil {
		t.Fatal(err)
	}
}

// With any of its attachments missing a policy is not enforced. The next apply completes it, and a
// release removes the rest.
func TestMissingAttachmentsAreCompleted(t *testing.T) {
	both := limitedBoth("a", 1e6, 2e6)
	for _, test := range []struct {
		missing string
		scope   policy.Scope
		all     [3]int
	}{
		{"link-0", both, [3]int{1, 1, 1}},
		{"link-1", both, [3]int{1, 1, 1}},
		{"link-2", both, [3]int{1, 1, 1}},
		{"link-1", limited("a", 1e6), [3]int{1, 0, 1}},
	} {
		for how, end := range map[string]func(*testing.T, string){"unpinned": func(t *testing.T, path string) { testutil.Remove(t, path) }, "detached": detachPin} {
			t.Run(test.missing+" "+how, func(t *testing.T) {
				e := setup(t)
				testutil.Mkdir(t, e.CgroupRoot, "a")
				apply(t, e, test.scope)
				attaches(t, e, test.all)
				for _, name := range strings.Fields(test.missing) {
					end(t, filepath.Join(limitPins(e), name))
				}
				status, err := e.Status()
				if err != nil || status.Enforced || status.Scopes[0].State != "not attached" {
					t.Errorf("status: %+v, %v", status, err)
				}
				if plan, err := e.Plan(of(test.scope)); err != nil || !plan.Changed || !plan.Restored {
					t.Errorf("plan: %+v, %v", plan, err)
				}
				if out := apply(t, e, test.scope); !out.Changed || !out.Restored {
					t.Errorf("apply: %+v", out)
				}
				attaches(t, e, test.all)
				if got := states(t, e)["a"]; got != "enforced" {
					t.Errorf("after the apply it is %s", got)
				}
				if out := apply(t, e, test.scope); out.Changed || out.Restored {
					t.Errorf("a second apply: %+v", out)
				}
				for _, name := range strings.Fields(test.missing) {
					end(t, filepath.Join(limitPins(e), name))
				}
				if released, err := e.Release(); err != nil || !released {
					t.Errorf("released: %t, %v", released, err)
				}
				if _, err := os.Stat(e.PinDir); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("pins left: %v", err)
				}
				attaches(t, e, [3]int{})
			})
		}
	}
}

// A first apply that is killed between two pins leaves a journal and some of the pins. The next
// apply completes it.
func TestAFirstApplyKilledBetweenTwoPinsIsCompleted(t *testing.T) {
	e := setup(t)
	testutil.Mkdir(t, e.CgroupRoot, "a")
	apply(t, e, limited("a", 1e6))
	for _, kept := range []string{"current", "free", "link-0"} {
		pins, err := os.ReadDir(limitPins(e))
		if err != nil {
			t.Fatal(err)
		}
		// Apply pins in a fixed order, attachments last. kept is the last pin before the kill.
		for _, pin := range pins {
			if name := pin.Name(); name != kept && (kept != "link-0" || strings.HasPrefix(name, "link-")) {
				testutil.Remove(t, filepath.Join(limitPins(e), name))
			}
		}
		if err := os.Rename(filepath.Join(e.StateDir, current), filepath.Join(e.StateDir, journal)); err != nil {
			t.Fatal(err)
		}
		if out := apply(t, e, limited("a", 1e6)); !out.Recovered {
			t.Errorf("%s alone: %+v", kept, out)
		}
		attaches(t, e, [3]int{1, 0, 1})
		if got := states(t, e)["a"]; got != "enforced" {
			t.Errorf("%s alone: %s", kept, got)
		}
	}
}

// An apply is killed before or after it detaches the ingress program, and leaves its journal.
func TestAnApplyKilledAtTheEndOfIngressIsCompleted(t *testing.T) {
	e := setup(t)
	testutil.Mkdir(t, e.CgroupRoot, "a")
	both, after := limitedBoth("a", 1e6, 2e6), limited("a", 1e6)
	apply(t, e, both)
	s := e.store()
	have, err := s.read(current)
	if err != nil {
		t.Fatal(err)
	}
	next, err := e.next(have, []policy.Scope{after}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, done := range []bool{false, true} {
		if err := errors.Join(s.write(current, have), s.write(journal, next)); err != nil {
			t.Fatal(err)
		}
		if done {
			if _, _, err := e.enforce(have, next); err != nil {
				t.Fatal(err)
			}
		}
		if out := apply(t, e, after); !out.Recovered || out.Changed {
			t.Errorf("done %t: %+v", done, out)
		}
		if got := testutil.CountPrograms(t, e.CgroupRoot); got != [3]int{1, 0, 1} {
			t.Errorf("done %t: programs %d", done, got)
		}
		apply(t, e, both)
	}
}
