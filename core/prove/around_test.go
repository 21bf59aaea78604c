// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"testing"

	"weir/core/module"
	"weir/core/selector"
)

// Traffic that a module has counted as bypassed breaks the promise.
func TestTrafficThatWentAroundIsAFailure(t *testing.T) {
	for n, want := range map[uint64]State{0: Covered, 4: Escapes} {
		b := judgeCounted(Bypass{Scope: anyScope, Why: "Packets of more scopes than one packet can be charged to."}, n)
		if b.State != want || (&Result{Bypasses: []Bypass{b}}).Failed() != (want == Escapes) {
			t.Errorf("%d packets: %s because %s, want %s", n, b.State, b.Why, want)
		}
	}
}

// A scope that is charged at a device includes forwarded traffic and packet sockets.
func TestNothingPassesByAScopeAtADevice(t *testing.T) {
	at := charged{check: module.Check{Charged: module.Charge{AtDevice: true}}, inside: selector.Inside{Device: "lo"}}
	if b, err := (&runner{}).forwarding(t.Context(), at); err != nil || b.State != NotApplicable {
		t.Errorf("forwarded traffic: %s because %s (%v)", b.State, b.Why, err)
	}
	blind := []module.BlindSpot{{Name: module.ForwardedTraffic, Text: "forwarded packets are not limited"}}
	unseen := charged{check: module.Check{Charged: module.Charge{Blind: blind}}}
	if b, err := (&runner{}).forwarding(t.Context(), unseen); err != nil || b.State != CanEscape || b.Why != blind[0].Text {
		t.Errorf("forwarded traffic of a scope of sockets: %s because %s (%v)", b.State, b.Why, err)
	}
	for _, test := range []struct {
		all  []charged
		want State
	}{{[]charged{at}, NotApplicable}, {[]charged{at, {}}, CanEscape}} {
		if b := packetSockets("/proc/net/packet", test.all); b.State != test.want {
			t.Errorf("%d scopes: %s because %s", len(test.all), b.State, b.Why)
		}
	}
}
