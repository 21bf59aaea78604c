// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/internal/direction"
	"weir/internal/units"
	"weir/modules/cc"
	"weir/modules/limit/police"
	"weir/modules/limit/scoped"
)

// A command under a limit is no policy, and is shown all the same.
func TestStatusShowsRuns(t *testing.T) {
	counted := police.Counters{}
	counted.Bytes, counted.Marked = 1000, 7
	one := scoped.Running{PID: 4711, Command: []string{"rsync", "-a"}, Limits: map[direction.Direction]units.BitRate{direction.Egress: 1e6, direction.Ingress: 2e6},
		Counted: map[direction.Direction]*police.Counters{direction.Egress: &counted}}
	want := [][]string{
		{"rsync -a", "4711", "", "egress", "1 Mbit/s", "1000 B", "7", "0", "0", "1", "2 KiB", "3.00 ms", "enforced"},
		{"rsync -a", "4711", "", "ingress", "2 Mbit/s", "", "", "", "", "", "", "", "enforced"},
		{"scp", "4712", "lbe", "", "", "", "", "", "", "", "", "", "enforced"},
		{"wget", "4713", "lbe", "", "", "", "", "", "", "2", "", "", "enforced"},
	}
	received := cc.Received{Connections: 1, Steps: 10, WindowSum: 20480, DelaySum: 30_000}
	runs := []running{{one, &received}, {Running: scoped.Running{PID: 4712, Command: []string{"scp"}, Class: "lbe"}},
		{scoped.Running{PID: 4713, Command: []string{"wget"}, Class: "lbe"}, &cc.Received{Connections: 2}}}
	if diff := cmp.Diff(want, runsTable(runs).Rows); diff != "" {
		t.Error(diff)
	}
}
