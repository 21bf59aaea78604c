// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"strings"
	"testing"

	"weir/core/module"
	"weir/core/policy"
	"weir/kernel/probe"
	"weir/kernel/testutil"
	"weir/modules/offload/conformance"
)

// Bonds are ports of every backend; a device of a bond is not a port.
func TestBondsArePorts(t *testing.T) {
	testutil.Need(t, "XDP on veth", probe.XDPNative())
	for _, backend := range []string{byXDP, byFlower} {
		t.Run(backend, func(t *testing.T) {
			b := conformance.NewBonded(t)
			if backend == byFlower {
				testutil.Need(t, "flower", probe.Classifier("flower"))
			}
			r := routerOf(t, b, func(o *Treatment) { o.Backend = backend })
			r.apply()
			if backend == byXDP {
				r.holds()
			} else {
				r.verifiesFilters()
			}
			inside := *treatmentOf(r.state)
			inside.From = []string{"p0a", "p1"}
			asked := module.State{Host: []policy.Item{{Module: moduleName, Name: "offload", Treatment: &inside}}}
			if err := r.plane.Ready(asked); err == nil || !strings.Contains(err.Error(), "p0a belongs to another device (bond") {
				t.Errorf("a device of a bond: %v", err)
			}
		})
	}
}

// XDP rejects a bond that drops redirected frames; filters accept it.
func TestBondsWithoutXDPAreRefused(t *testing.T) {
	testutil.Need(t, "XDP on veth", probe.XDPNative())
	r := routerOf(t, conformance.NewBonded(t), nil)
	for _, kind := range []string{"mode balance-alb", "mode broadcast", "mode balance-xor xmit_hash_policy vlan+srcmac"} {
		r.ip("link add spare type bond " + kind)
		asked := *treatmentOf(r.state)
		asked.To = []string{"spare"}
		want := module.State{Host: []policy.Item{{Module: moduleName, Name: "offload", Treatment: &asked}}}
		if err := r.plane.Ready(want); err == nil || !strings.Contains(err.Error(), "no XDP for bond spare") {
			t.Errorf("%s: %v", kind, err)
		}
		r.ip("link del spare")
	}
}
