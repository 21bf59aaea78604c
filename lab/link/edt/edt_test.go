// SPDX-License-Identifier: Apache-2.0

package edt_test

import (
	"testing"

	"weir/kernel/probe"
	"weir/kernel/testutil"
	"weir/lab/link/conformance"
	"weir/lab/link/edt"
)

func TestConformance(t *testing.T) {
	testutil.NeedRoot(t)
	testutil.Need(t, "fq", probe.Qdisc("fq"))
	for name, carrier := range map[string]*edt.Carrier{"tcx": edt.New(), "clsact": edt.ByClsact()} {
		t.Run(name, func(t *testing.T) {
			conformance.Run(t, carrier, conformance.CoDel, conformance.FQCoDel, conformance.CAKE, conformance.PIE, conformance.Marks, conformance.Schedule)
		})
	}
}
