// SPDX-License-Identifier: Apache-2.0

package flower_test

import (
	"path/filepath"
	"testing"
	"time"

	kernel "weir/kernel/flower"
	"weir/kernel/netns"
	"weir/kernel/probe"
	"weir/kernel/testutil"
	"weir/modules/offload/conformance"
	"weir/modules/offload/flower"
	"weir/modules/offload/plan"
)

// backend installs filters in software.
type backend struct{}

func (backend) Install(t testing.TB, router *netns.Namespace, p *plan.Planner) func() uint64 {
	t.Helper()
	pins := filepath.Join(testutil.BPFFS(t), "offload")
	in, err := flower.Install(router, pins, p, kernel.SkipHardware, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if released, err := flower.Remove(router, pins); !released || err != nil {
			t.Errorf("remove: %t, %v", released, err)
		}
	})
	return func() uint64 {
		seen, err := flower.Read(router, pins)
		if err != nil {
			t.Fatal(err)
		}
		packets, _ := seen.Forwarded()
		return packets
	}
}

// Flower in software forwards as the kernel does, except for fields that it cannot match.
func TestFlowerForwardsAsTheKernelDoes(t *testing.T) {
	testutil.Need(t, "flower", probe.Classifier("flower"))
	conformance.Run(t, backend{}, conformance.Limits{Headers: true, Ways: true})
}
