// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"net/netip"
	"testing"
)

// MP_REACH_NLRI comes first in each message, and no message exceeds the maximum.
func TestMPReachIsTheFirstAttribute(t *testing.T) {
	attrs := Attrs{FlagTransitive, byte(AttrOrigin), 1, 0, FlagTransitive, byte(AttrASPath), 6, 2, 1, 0, 0, 0x21, 0x2c}
	attrs = append(append(attrs, FlagOptional, byte(AttrMPReach), 17, 16), netip.MustParseAddr("2001:db8:99::1").AsSlice()...)
	attrs = append(append(attrs, FlagOptional|FlagTransitive|FlagExtended, 200, 2, 0), make([]byte, 512)...) // unknown
	var routes []Target
	for i := range 2000 {
		routes = append(routes, Target{netip.MustParsePrefix(fmt.Sprintf("2001:db8:%x::/48", i)), uint32(i)})
	}
	out := Outbound{Coding: Coding{AS4: true, AddPathIPv6: true}, Max: MaxMessage}
	messages, n := out.Announce(nil, IPv6Unicast, attrs, routes), 0
	for len(messages) > 0 {
		kind, size, err := ParseHeader(messages, MaxMessage)
		if err != nil || kind != TypeUpdate {
			t.Fatalf("type %d: %v", kind, err)
		}
		body := messages[HeaderSize:size]
		if first := AttrType(body[5]); first != AttrMPReach {
			t.Errorf("the first attribute is %v", first)
		}
		u, err := ParseUpdate(body, out.Coding)
		if err != nil || u.Fault != nil {
			t.Fatalf("a malformed UPDATE: %v %v", err, u.Fault)
		}
		for p, id, ok := u.Reach.Next(); ok; p, id, ok = u.Reach.Next() {
			if routes[n] != (Target{p, id}) {
				t.Fatalf("route %d is %v with identifier %d", n, p, id)
			}
			n++
		}
		messages = messages[size:]
	}
	if n != len(routes) {
		t.Errorf("%d of %d routes", n, len(routes))
	}
}
