// SPDX-License-Identifier: Apache-2.0

package netem_test

import (
	"testing"

	"weir/kernel/probe"
	"weir/kernel/testutil"
	"weir/lab/link/conformance"
	"weir/lab/link/netem"
)

func TestConformance(t *testing.T) {
	testutil.NeedRoot(t)
	testutil.Need(t, "netem", probe.Netem())
	for name, carrier := range map[string]*netem.Carrier{"tcx": netem.New(), "clsact": netem.ByClsact()} {
		t.Run(name, func(t *testing.T) {
			conformance.Run(t, carrier, conformance.EveryNth, conformance.ECN, conformance.Schedule)
		})
	}
}
