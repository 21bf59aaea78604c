// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"testing"

	"weir/kernel/netns"
	"weir/kernel/testutil"
)

func TestForeignNamespacesAreThoseOfOtherUserNamespaces(t *testing.T) {
	own := testutil.Namespace(t, "owner")
	if foreign, err := own.Foreign(); err != nil || foreign {
		t.Errorf("one that this process has made: foreign %t, %v", foreign, err)
	}
	if foreign, err := testutil.ForeignNamespace(t).Foreign(); err != nil || !foreign {
		t.Errorf("one of another user namespace: foreign %t, %v", foreign, err)
	}
}

// Few admits a limited number of another user's namespaces, and all of this process's own.
func TestFewForeignNamespacesAreVisited(t *testing.T) {
	own, foreign := testutil.Namespace(t, "owner"), testutil.ForeignNamespace(t)
	visited := map[*netns.Namespace]int{}
	few := &netns.Few{Most: 3}
	visit := few.Of(func(ns *netns.Namespace) error { visited[ns]++; return nil })
	for range 10 {
		for _, ns := range []*netns.Namespace{nil, own, foreign} {
			if err := visit(ns); err != nil {
				t.Fatal(err)
			}
		}
	}
	if visited[nil] != 10 || visited[own] != 10 || visited[foreign] != 3 || few.Left != 7 {
		t.Errorf("visited %d, %d, and %d foreign ones; %d left out", visited[nil], visited[own], visited[foreign], few.Left)
	}
}
