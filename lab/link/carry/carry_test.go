// SPDX-License-Identifier: Apache-2.0

package carry_test

import (
	"strings"
	"testing"
	"time"

	"weir/internal/fault"
	"weir/kernel/probe"
	"weir/kernel/testutil"
	"weir/lab/link"
	"weir/lab/link/carry"
	"weir/lab/link/loss"
)

func TestChoiceFollowsTheProbe(t *testing.T) {
	testutil.NeedRoot(t)
	testutil.Need(t, "AF_XDP", probe.AFXDP())
	choice, err := carry.Choose(carry.Auto)
	if err != nil {
		t.Fatal(err)
	}
	want := "AF_XDP emulator"
	switch {
	case probe.Qdisc("fq") == nil:
		want = "departure times in fq"
	case probe.Netem() == nil:
		want = "netem"
	}
	if got := choice.Carrier.Mechanism(); got != want || choice.Reason == "" {
		t.Errorf("chose %s because %q, want %s and a reason", got, choice.Reason, want)
	}
}

func TestWhatTheKernelCannotDoGoesToTheEmulator(t *testing.T) {
	testutil.NeedRoot(t)
	testutil.Need(t, "AF_XDP", probe.AFXDP())
	every := link.Cable{Name: "c", Forward: link.Direction{Rate: 1e6, Loss: loss.Of(loss.EveryNth{Nth: 3}),
		Schedule: []link.Step{{For: time.Second, BitsPerSecond: 1e6}}}}
	choice, err := carry.Choose("", every)
	if err != nil {
		t.Fatal(err)
	}
	if got := choice.Carrier.Mechanism(); got != "AF_XDP emulator" {
		t.Errorf("chose %s", got)
	}
	for _, name := range []string{carry.EDT, carry.Netem} {
		if _, err := carry.Choose(name, every); err == nil {
			t.Errorf("%s was given a link that it cannot carry", name)
		}
	}
}

func TestUnknownNamesAreUsageErrors(t *testing.T) {
	_, err := carry.Choose("emulatr")
	if fault.Of(err) != fault.Usage || !strings.Contains(err.Error(), "emulator") {
		t.Errorf("the error is %v with status %d", err, fault.Of(err))
	}
}

func TestNonsenseIsRefused(t *testing.T) {
	testutil.NeedRoot(t)
	if _, err := carry.Choose(carry.Auto, link.Cable{Forward: link.Direction{Reorder: 2}}); err == nil {
		t.Error("a share of 2 was accepted")
	}
}
