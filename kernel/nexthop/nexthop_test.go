// SPDX-License-Identifier: Apache-2.0

package nexthop_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"weir/kernel/nexthop"
	"weir/kernel/rtnl"
	"weir/kernel/testutil"
)

func TestResolveFollowsTheRouteAndAsksTheNeighbour(t *testing.T) {
	left, right := testutil.Namespace(t, "hopl"), testutil.Namespace(t, "hopr")
	l, err := rtnl.Open(left)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r, err := rtnl.Open(right)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := errors.Join(
		l.AddVeth("a", right, "b", 0), l.SetUp("a"), r.SetUp("b"),
		l.AddAddress("a", netip.MustParsePrefix("198.18.0.1/24")), r.AddAddress("b", netip.MustParsePrefix("198.18.0.2/24")),
		l.AddAddress("a", netip.MustParsePrefix("2001:2::1/64")), r.AddAddress("b", netip.MustParsePrefix("2001:2::2/64")),
		l.AddRoute(rtnl.Route{To: netip.MustParsePrefix("198.19.0.0/16"), Via: netip.MustParseAddr("198.18.0.2")}),
	); err != nil {
		t.Fatal(err)
	}
	b, err := r.Device("b")
	if err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{"198.18.0.2", "198.19.4.5", "2001:2::2"} {
		mac, err := nexthop.Resolve(context.Background(), left, "a", netip.MustParseAddr(to))
		if err != nil {
			t.Errorf("resolve %s: %v", to, err)
		} else if mac.String() != b.MAC.String() {
			t.Errorf("frames for %s go to %s, want %s", to, mac, b.MAC)
		}
	}
	if _, err := nexthop.Resolve(context.Background(), left, "a", netip.MustParseAddr("192.0.2.1")); !errors.Is(err, nexthop.ErrNone) {
		t.Errorf("an address without a route: %v, want ErrNone", err)
	}
	if _, err := nexthop.Resolve(context.Background(), left, "a", netip.MustParseAddr("198.18.0.9")); !errors.Is(err, nexthop.ErrSilent) {
		t.Errorf("an absent neighbour: %v, want ErrSilent", err)
	}
	for family, want := range map[int]string{4: "198.18.0.1", 6: "2001:2::1"} {
		if got, err := nexthop.Address(left, "a", family); err != nil || got.String() != want {
			t.Errorf("address of family %d is %s (%v), want %s", family, got, err, want)
		}
	}
}
