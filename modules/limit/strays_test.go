// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"errors"
	"os"
	"strings"
	"testing"

	"weir/core/module"
	"weir/internal/fault"
	"weir/kernel/testutil"
	"weir/modules/limit/police"
)

// Limits stay active if their pins are moved: release reports them, and apply attaches no others.
func TestLimitsWithMovedPinsAreReported(t *testing.T) {
	h := coreHost(t)
	plane, want := &policer{h}, bound(t, h, map[string]int{}, "  a: {user: 1000, egress: 10Mbit}\n")
	if _, err := plane.Apply(module.State{}, want); err != nil {
		t.Fatal(err)
	}
	stolen := h.Pins + "-stolen"
	if err := os.Rename(h.Pins, stolen); err != nil {
		t.Fatal(err)
	}
	_, released := plane.Release()
	_, applied := plane.Apply(want, want)
	for what, err := range map[string]error{"release": released, "apply": applied, "ready": plane.Ready(want)} {
		if !errors.Is(err, module.ErrForeign) || !strings.Contains(err.Error(), "limit_egress"+" (link ") {
			t.Errorf("%s: %v", what, err)
			continue
		}
		if strings.Contains(err.Error(), "(link 0)") || !strings.Contains(fault.Advice(err), "apt install bpftool") {
			t.Errorf("%s: nobody can end them by %v, %s", what, err, fault.Advice(err))
		}
	}
	if got := testutil.CountPrograms(t, h.CgroupRoot); got != [3]int{1, 0, 1} {
		t.Errorf("%v programs are attached, want those of before", got)
	}
	if err := errors.Join(police.Unpin(stolen), police.NoStrays(h.CgroupRoot)); err != nil {
		t.Error(err)
	}
}
