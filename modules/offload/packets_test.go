// SPDX-License-Identifier: Apache-2.0

package offload

import "testing"

// The program may use another hop of a multipath route with the input link among its hops, or leave
// the packet to the kernel. Neither is a difference.
func TestOneOfSeveralWaysMayLeadBack(t *testing.T) {
	r := newRouter(t, nil)
	r.ip("route add 100.90.0.0/24 nexthop via 10.2.0.2 weight 2 nexthop via 10.2.0.3 nexthop via 10.1.0.2")
	r.apply()
	v, err := Verification{Namespace: r.Router, Pins: r.plane.host.Pins, Treatment: treatmentOf(r.state), Packets: 4000, Seed: 3}.Run()
	if err != nil || !v.Holds() || v.Sent == 0 {
		t.Errorf("%+v, %v", v.Document(), err)
	}
}
