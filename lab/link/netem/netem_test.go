package netem_test

import (
	"testing"

	"weir/internal/kernel/probe"
	"weir/internal/testutil"
	"weir/lab/link/conformance"
	"weir/lab/link/netem"
)

func TestConformance(t *testing.T) {
	testutil.NeedRoot(t)
	testutil.Need(t, "netem", probe.Netem())
	conformance.Run(t, netem.New(), conformance.EveryNth, conformance.ECN)
}
