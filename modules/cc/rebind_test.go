// SPDX-License-Identifier: Apache-2.0

package cc

import (
	"testing"

	"github.com/cilium/ebpf"

	"weir/core/match"
	"weir/core/module"
	"weir/kernel/cgroup"
	"weir/kernel/testutil"
)

// A cgroup that is made again has its scope's control before anybody has looked.
func TestANewCgroupHasItsControl(t *testing.T) {
	root := testutil.Cgroup(t)
	testutil.Need(t, "tracing", match.CanRebind())
	testutil.Need(t, "struct_ops-links", match.Cgroup.Needs(ebpf.SockOps))
	p := ownPlane(t, root.Path, testutil.BPFFS(t)+"/cc")
	p.apply(t, module.State{}, p.state(t, "  a: {cgroup: /again, congestion: reno}\n"))
	for round := range 2 {
		group, err := cgroup.Create(root.Path, "again")
		if err != nil {
			t.Fatal(err)
		}
		id, err := group.ID()
		if err != nil {
			t.Fatal(err)
		}
		if holds, err := p.Holds(0, match.OfCgroup(id)); err != nil || !holds {
			t.Errorf("round %d: %v, %v", round, holds, err)
		}
		if err := group.Remove(); err != nil {
			t.Fatal(err)
		}
	}
}
