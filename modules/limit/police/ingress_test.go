// SPDX-License-Identifier: Apache-2.0

package police

import (
	"errors"
	"testing"
	"time"

	"weir/kernel/testutil"
)

// Without ingress limits no ingress program is attached, in any order of limit and attachment.
func TestIngressIsAttachedWithItsFirstLimit(t *testing.T) {
	egress, all := [3]int{1, 0, 1}, [3]int{1, 1, 1}
	set := func(t *testing.T, p *DataPlane, direction Direction) {
		t.Helper()
		if err := p.Set(0, direction, Limit{Rate: MaxRate}); err != nil {
			t.Fatal(err)
		}
	}
	attach := func(t *testing.T, p *DataPlane, path string) {
		t.Helper()
		if err := p.Attach(path); err != nil {
			t.Fatal(err)
		}
	}
	want := func(t *testing.T, path string, want [3]int) {
		t.Helper()
		if got := testutil.CountPrograms(t, path); got != want {
			t.Errorf("programs at egress, ingress and sockops: %d, want %d", got, want)
		}
	}
	t.Run("the attachment first", func(t *testing.T) {
		p, group := plane(t, 1), testutil.Cgroup(t)
		attach(t, p, group.Path)
		set(t, p, Egress)
		want(t, group.Path, egress)
		set(t, p, Ingress)
		set(t, p, Ingress)
		want(t, group.Path, all)
	})
	t.Run("the limit first", func(t *testing.T) {
		p, group := plane(t, 1), testutil.Cgroup(t)
		set(t, p, Ingress)
		attach(t, p, group.Path)
		want(t, group.Path, all)
	})
	t.Run("pinned", func(t *testing.T) {
		p, group, dir := plane(t, 1), testutil.Cgroup(t), pins(t)
		attach(t, p, group.Path)
		if err := p.Pin(dir); err != nil {
			t.Fatal(err)
		}
		for _, direction := range []Direction{Egress, Ingress, Ingress} {
			again, err := LoadPinned(dir)
			if err != nil {
				t.Fatal(err)
			}
			if direction == Ingress && testutil.CountPrograms(t, group.Path) == egress && again.Set(0, Ingress, Limit{Rate: MaxRate}) == nil {
				t.Error("a limit was set at ingress without a place to attach its program to")
			}
			again.AttachedTo(group.Path)
			set(t, again, direction)
			if err := again.Close(); err != nil {
				t.Fatal(err)
			}
			if direction == Egress {
				want(t, group.Path, egress)
			} else {
				want(t, group.Path, all)
			}
		}
		if in, err := Attached(dir); err != nil || !in {
			t.Errorf("attached: %t, %v", in, err)
		}
		if err := p.closeLinks(); err != nil {
			t.Fatal(err)
		}
		if err := Unpin(dir); err != nil {
			t.Fatal(err)
		}
		// The kernel releases unreferenced links asynchronously.
		testutil.Eventually(t, 5*time.Second, "the end of the links", func() bool { return testutil.CountPrograms(t, group.Path) == [3]int{} })
	})
}

// The ingress program is detached with its last limit, whichever process attached it, and attached
// again with the next.
func TestIngressIsDetachedWithItsLastLimit(t *testing.T) {
	egress, all := [3]int{1, 0, 1}, [3]int{1, 1, 1}
	for _, way := range []string{"in this process", "pinned", "pinned and opened again"} {
		t.Run(way, func(t *testing.T) {
			p, group, dir := plane(t, 2), testutil.Cgroup(t), pins(t)
			ends := func(after string, want [3]int) {
				t.Helper()
				if way == "pinned and opened again" {
					if err := p.Close(); err != nil {
						t.Fatal(err)
					}
					again, err := LoadPinned(dir)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { _ = again.Close() })
					p = again
					p.AttachedTo(group.Path)
				}
				if err := p.EndIngress(); err != nil {
					t.Fatal(err)
				}
				if got := testutil.CountPrograms(t, group.Path); got != want {
					t.Errorf("%s: programs at egress, ingress and sockops: %d, want %d", after, got, want)
				}
				if way == "in this process" {
					return
				}
				if in, err := Attached(dir); err != nil || !in {
					t.Errorf("%s: attached: %t, %v", after, in, err)
				}
			}
			limit := Limit{Rate: MaxRate}
			if err := errors.Join(p.Set(0, Egress, limit), p.Set(0, Ingress, limit), p.Set(1, Ingress, limit), p.Attach(group.Path)); err != nil {
				t.Fatal(err)
			}
			if way != "in this process" {
				if err := p.Pin(dir); err != nil {
					t.Fatal(err)
				}
			}
			ends("with two", all)
			if err := p.Clear(0, Ingress); err != nil {
				t.Fatal(err)
			}
			ends("with one", all)
			if err := p.Clear(1, Ingress); err != nil {
				t.Fatal(err)
			}
			ends("with none", egress)
			ends("again", egress)
			if err := p.Set(1, Ingress, limit); err != nil {
				t.Fatal(err)
			}
			ends("with the next", all)
		})
	}
}

// An attachment that ended while its pin stayed is replaced by the next ingress limit.
func TestAnEndedAttachmentForIngressIsReplaced(t *testing.T) {
	p, group, dir := plane(t, 1), testutil.Cgroup(t), pins(t)
	limit := Limit{Rate: MaxRate}
	if err := errors.Join(p.Set(0, Ingress, limit), p.Attach(group.Path), p.Pin(dir), p.inward.Detach(), p.Clear(0, Ingress), p.Close()); err != nil {
		t.Fatal(err)
	}
	if in, err := Attached(dir); err != nil || !in {
		t.Errorf("without a limit of ingress: attached %t, %v", in, err)
	}
	again, err := LoadPinned(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Close() }()
	again.AttachedTo(group.Path)
	if err := again.Set(0, Ingress, limit); err != nil {
		t.Fatal(err)
	}
	if got := testutil.CountPrograms(t, group.Path); got != [3]int{1, 1, 1} {
		t.Errorf("programs at egress, ingress and sockops: %d", got)
	}
}
