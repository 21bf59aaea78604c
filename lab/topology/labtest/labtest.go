// SPDX-License-Identifier: Apache-2.0

// Package labtest builds topologies for tests.
package labtest

import (
	"testing"

	"weir/kernel/instance"
	"weir/kernel/testutil"
	"weir/lab/scenario"
	"weir/lab/topology"
)

// Build makes a cell's topology, as part of a lab of its own, for the time of a test.
func Build(t testing.TB, cell *scenario.Cell) (*instance.Instance, *topology.Topology) {
	t.Helper()
	testutil.NeedRoot(t)
	t.Setenv("WEIR_RUN_DIR", t.TempDir())
	lab, err := instance.New("test", instance.Run)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	built, err := topology.Build(t.Context(), lab, cell)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(built.Close)
	return lab, built
}
