// SPDX-License-Identifier: Apache-2.0

package rtnl_test

import (
	"net/netip"
	"strings"
	"testing"

	"weir/kernel/rtnl"
)

func TestOverlapFindsAddressesAndRoutesAndNoDefaultRoute(t *testing.T) {
	_, a, _ := pair(t)
	must(t, a.AddAddress("a", netip.MustParsePrefix("192.0.2.1/24")))
	must(t, a.AddAddress("a", netip.MustParsePrefix("2001:db8::1/64")))
	must(t, a.AddRoute(rtnl.Route{Via: netip.MustParseAddr("192.0.2.2")}))
	must(t, a.AddRoute(rtnl.Route{To: netip.MustParsePrefix("198.18.0.0/15"), Via: netip.MustParseAddr("192.0.2.2")}))
	for _, test := range []struct{ prefix, want string }{
		{"192.0.2.128/30", "address 192.0.2.1/24"},
		{"192.0.0.0/16", "address 192.0.2.1/24"},
		{"198.18.7.0/30", "route to 198.18.0.0/15"},
		{"2001:db8::/126", "address 2001:db8::1/64"},
		{"203.0.113.0/24", ""},
		{"2001:2::/48", ""},
	} {
		t.Run(test.prefix, func(t *testing.T) {
			got, err := a.Overlap(netip.MustParsePrefix(test.prefix))
			if err != nil || !strings.HasPrefix(got, test.want) || test.want == "" && got != "" {
				t.Errorf("%s: %q, %v; want %q", test.prefix, got, err, test.want)
			}
		})
	}
}
