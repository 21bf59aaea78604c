// SPDX-License-Identifier: Apache-2.0

package xdp_test

import (
	"testing"
	"time"

	"weir/kernel/netns"
	"weir/kernel/probe"
	"weir/kernel/testutil"
	"weir/modules/offload/conformance"
	"weir/modules/offload/plan"
	"weir/modules/offload/xdp"
)

type backend struct{}

func (backend) Install(t testing.TB, router *netns.Namespace, p *plan.Planner) func() uint64 {
	t.Helper()
	table, err := xdp.New(router, p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(table.Close)
	if err := table.Renew(time.Hour); err != nil {
		t.Fatal(err)
	}
	for _, port := range p.Ports() {
		attached, _, err := table.Attach(port, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = attached.Close() })
	}
	t.Cleanup(func() {
		c, _ := table.Counts()
		t.Logf("forwarded %d, left %d %v", c.Forwarded.Packets, c.Left, xdp.Reasons)
	})
	return func() uint64 {
		c, err := table.Counts()
		if err != nil {
			t.Fatal(err)
		}
		return c.Forwarded.Packets
	}
}

// XDP forwards as the kernel does, byte by byte, without loss.
func TestXDPForwardsAsTheKernelDoes(t *testing.T) {
	testutil.Need(t, "XDP on veth", probe.XDPNative())
	conformance.Run(t, backend{}, conformance.Limits{})
}
