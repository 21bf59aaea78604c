// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"weir/internal/fault"
	"weir/kernel/testutil"
)

// limitA applies a limit to the cgroup /a.
func limitA(t *testing.T, e *Engine) {
	t.Helper()
	testutil.Mkdir(t, e.CgroupRoot, "a")
	apply(t, e, limited("a", 1e6))
}

// attached returns the number of programs at the engine's cgroup.
func attached(t *testing.T, e *Engine) (n int) {
	t.Helper()
	for _, one := range testutil.CountPrograms(t, e.CgroupRoot) {
		n += one
	}
	return n
}

// A release removes all programs with a full, a read-only and a missing state folder.
func TestReleaseWithABrokenStateFolder(t *testing.T) {
	small := func(t *testing.T, dir, options string) {
		t.Helper()
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	}
	for _, test := range []struct {
		name    string
		spoil   func(t *testing.T, dir string)
		applies string // error of an apply
		try     string
		stays   bool // files in the folder cannot be removed
	}{
		{"full", func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, "ballast"), make([]byte, 1<<20), 0o600); err == nil {
				t.Fatal("the file system is not full")
			}
		}, "no space left", "free space", false},
		{"read-only", func(t *testing.T, dir string) {
			if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
				t.Fatal(err)
			}
		}, "read-only file system", "remount,rw", true},
		{"a file", func(t *testing.T, dir string) {
			if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(dir); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(dir, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "not a directory", "remove or rename", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := setup(t)
			small(t, e.StateDir, "size=64k")
			limitA(t, e)
			test.spoil(t, e.StateDir)
			_, err := e.Apply(of(limited("a", 2e6)))
			if err == nil || !strings.Contains(err.Error(), test.applies) || !strings.Contains(fault.Advice(err), test.try) {
				t.Errorf("apply: %v, try %q; want %q and %q", err, fault.Advice(err), test.applies, test.try)
			}
			released, err := e.Release()
			if !released || (err != nil) != test.stays || err != nil && !strings.Contains(fault.Advice(err), test.try) {
				t.Errorf("release: %v, %v, try %q", released, err, fault.Advice(err))
			}
			if n := attached(t, e); n != 0 {
				t.Errorf("%d programs are attached after the release", n)
			}
		})
	}
}

// Pins without a state file stay active: plan, apply and status report them. After the next apply
// only its scopes are limited.
func TestPinsWithoutAStateFileAreReported(t *testing.T) {
	e := setup(t)
	limitA(t, e)
	testutil.Mkdir(t, e.CgroupRoot, "b")
	if err := os.RemoveAll(e.StateDir); err != nil {
		t.Fatal(err)
	}
	want := of(limited("b", 1e6))
	reported := func(what string, notes []string) {
		t.Helper()
		if !strings.Contains(strings.Join(notes, "\n"), "are active without a state in "+e.StateDir) {
			t.Errorf("%s: %q", what, notes)
		}
	}
	if status, err := e.Status(); err != nil || !status.Orphaned {
		t.Errorf("status: %+v, %v", status, err)
	}
	out, err := e.Plan(want)
	if err != nil {
		t.Fatal(err)
	}
	reported("plan", out.Notes)
	if out, err = e.Apply(want); err != nil {
		t.Fatal(err)
	}
	reported("apply", out.Notes)
	if status, err := e.Status(); err != nil || status.Orphaned || !status.Enforced || len(status.Scopes) != 1 {
		t.Errorf("status after an apply: %+v, %v", status, err)
	}
	if err := os.RemoveAll(e.StateDir); err != nil {
		t.Fatal(err)
	}
	if released, err := e.Release(); err != nil || !released || attached(t, e) != 0 {
		t.Errorf("release: %v, %v, %d programs", released, err, attached(t, e))
	}
	if status, err := e.Status(); err != nil || status.Orphaned {
		t.Errorf("status after a release: %+v, %v", status, err)
	}
}

// A second Weir with folders of its own is reported by plan and rejected by apply, which leaves no
// journal.
func TestASecondWeirIsRejectedBeforeAnyChange(t *testing.T) {
	first := setup(t)
	limitA(t, first)
	second := engineAt(t.TempDir(), filepath.Join(testutil.BPFFS(t), "weir"), first.CgroupRoot)
	want := of(limited("a", 2e6))
	out, err := second.Plan(want)
	if err != nil || !strings.Contains(strings.Join(out.Rejected, "\n"), "an apply would be rejected: ") {
		t.Errorf("plan: %q, %v", out.Rejected, err)
	}
	_, err = second.Apply(want)
	if err == nil || strings.Count(err.Error(), "pinned elsewhere") != 1 || fault.Advice(err) == "" {
		t.Errorf("apply: %v", err)
	}
	status, err := second.Status()
	if err != nil || status.Interrupted || status.Orphaned {
		t.Errorf("status: %+v, %v", status, err)
	}
	if released, err := second.Release(); released || err == nil {
		t.Errorf("release of the second: %v, %v", released, err)
	}
	if status, err = second.Status(); err != nil || status.Interrupted {
		t.Errorf("status after a release: %+v, %v", status, err)
	}
	if status, err = first.Status(); err != nil || !status.Enforced {
		t.Errorf("the first: %+v, %v", status, err)
	}
}

// On a read-only BPF file system plan reports the obstacle with advice. No kernel probe detects it.
func TestAReadOnlyBPFFileSystemIsReported(t *testing.T) {
	e := setup(t)
	bpf := filepath.Dir(e.PinDir)
	if err := unix.Mount("", bpf, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	out, err := e.Plan(of(limited("a", 1e6)))
	if err != nil || !strings.Contains(strings.Join(out.Rejected, "\n"), "mounted read-only; mount it for writing") {
		t.Errorf("plan: %q, %v", out.Rejected, err)
	}
	_, err = e.Apply(of(limited("a", 1e6)))
	if fault.Of(err) != fault.Failed || !strings.Contains(fault.Advice(err), "remount,rw") {
		t.Errorf("apply: %v, status %d, try %q", err, fault.Of(err), fault.Advice(err))
	}
}

// Missing rights are reported apart from other obstacles, each with its own advice.
func TestObstaclesAreReportedSeparately(t *testing.T) {
	mount := fault.New(fault.Testbed, "mount one", "no file system")
	load := fmt.Errorf("load program: %w", unix.EPERM)
	refused := fault.New(fault.Permission, "run it as root", "look")
	for _, test := range []struct {
		description string
		err         error
		want        []string
	}{
		{"nothing", nil, nil},
		{"rights alone", errors.Join(refused, load), nil},
		{"one", mount, []string{"an apply would be rejected: no file system; mount one"}},
		{"words around several", fmt.Errorf("open: %w, %w", mount, errors.New("and more")), []string{
			"an apply would be rejected: open: no file system, and more; mount one"}},
		{"rights and another", errors.Join(mount, errors.Join(load, mount)), []string{
			"an apply needs rights that this process lacks: run it as root", "an apply would be rejected: no file system; mount one"}},
	} {
		if got := obstacles(test.err); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", test.description, got, test.want)
		}
	}
}
