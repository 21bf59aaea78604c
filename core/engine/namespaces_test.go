// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/kernel/netns"
	"weir/kernel/testutil"
)

// Namespaces that come are adopted once; those that go are forgotten, since their numbers may be
// given to others.
func TestNewNamespacesAreAdoptedAndOldOnesForgotten(t *testing.T) {
	e := setup(t)
	first, second := testutil.Namespace(t, "first"), testutil.Namespace(t, "second")
	inode := func(ns *netns.Namespace) uint64 {
		n, err := ns.Inode()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	var there []*netns.Namespace
	e.Sockets = func(f func(*netns.Namespace) error) error {
		for _, ns := range there {
			if err := f(ns); err != nil {
				return err
			}
		}
		return nil
	}
	there = []*netns.Namespace{first}
	known, err := e.FollowNamespaces(nil)
	if err != nil || known != nil {
		t.Fatalf("without a data plane: %v, %v", known, err)
	}
	apply(t, e, limited("a", 1e6))
	for _, step := range []struct {
		there []*netns.Namespace
		want  map[uint64]bool
	}{
		{[]*netns.Namespace{first}, map[uint64]bool{inode(first): true}},
		{[]*netns.Namespace{first, second}, map[uint64]bool{inode(first): true, inode(second): true}},
		{[]*netns.Namespace{second}, map[uint64]bool{inode(second): true}},
	} {
		there = step.there
		known, err = e.FollowNamespaces(known)
		testutil.Need(t, "tracing", err)
		if diff := cmp.Diff(step.want, known); diff != "" {
			t.Errorf("known namespaces differ (-want +got):\n%s", diff)
		}
	}
}
