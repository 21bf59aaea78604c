// SPDX-License-Identifier: Apache-2.0

package emulator_test

import (
	"testing"

	"weir/internal/child"
	"weir/kernel/probe"
	"weir/kernel/testutil"
	"weir/lab/link/conformance"
	"weir/lab/link/emulator"
)

func TestMain(m *testing.M) {
	child.Main(child.Parts{emulator.PartName: emulator.Part})
	m.Run()
}

func TestConformance(t *testing.T) {
	testutil.NeedRoot(t)
	testutil.Need(t, "AF_XDP", probe.AFXDP())
	conformance.Run(t, emulator.New(emulator.Options{}), conformance.CAKE)
}
