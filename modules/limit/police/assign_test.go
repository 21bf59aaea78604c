// SPDX-License-Identifier: Apache-2.0

package police

import (
	"net/netip"
	"testing"
)

// Every kind of scope matches its own packets only.
func TestScopesAreFoundByUserInterfaceAndLongestPrefix(t *testing.T) {
	// The test packets go from .1 to .2 (fd00::1 to fd00::2); a test run's socket belongs to user
	// 0.
	prefix := netip.MustParsePrefix
	for _, test := range []struct {
		name   string
		ipv6   bool
		assign func(*DataPlane) error
		want   [2]bool // whether scope 1 and scope 2 are charged
	}{
		{"the user of the socket", false, func(p *DataPlane) error { return p.AssignUser(0, 1) }, [2]bool{true, false}},
		{"another user", false, func(p *DataPlane) error { return p.AssignUser(4711, 1) }, [2]bool{false, false}},
		{"another interface", false, func(p *DataPlane) error { return p.AssignInterface(4711, 1) }, [2]bool{false, false}},
		{"the interface of a test run", false, func(p *DataPlane) error { return p.AssignInterface(1, 1) }, [2]bool{true, false}},
		{"an IPv4 prefix", false, func(p *DataPlane) error { return p.AssignPrefix(prefix("10.0.0.0/24"), 1) }, [2]bool{true, false}},
		{"an IPv4 prefix that holds the sender alone", false, func(p *DataPlane) error { return p.AssignPrefix(prefix("10.0.0.1/32"), 1) }, [2]bool{false, false}},
		{"an IPv6 prefix", true, func(p *DataPlane) error { return p.AssignPrefix(prefix("fd00::/64"), 1) }, [2]bool{true, false}},
		{"IPv6 does not match IPv4 entries", true, func(p *DataPlane) error { return p.AssignPrefix(prefix("0.0.0.0/0"), 1) }, [2]bool{false, false}},
		{"the longest of two", false, func(p *DataPlane) error {
			if err := p.AssignPrefix(prefix("10.0.0.0/8"), 1); err != nil {
				return err
			}
			return p.AssignPrefix(prefix("10.0.0.2/31"), 2)
		}, [2]bool{false, true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := plane(t, 3)
			for scope := range 3 {
				if err := p.Set(scope, Egress, slow(4, 50, 100)); err != nil {
					t.Fatal(err)
				}
			}
			if err := test.assign(p); err != nil {
				t.Fatal(err)
			}
			size := payload4
			if test.ipv6 {
				size = payload6
			}
			if verdict, _ := send(t, p.objects.LimitEgress, datagram(t, test.ipv6, 0, size)); verdict != pass {
				t.Fatalf("verdict %d", verdict)
			}
			for scope, want := range map[int]bool{0: true, 1: test.want[0], 2: test.want[1]} {
				counted, err := p.Counters(scope, Egress)
				if err != nil {
					t.Fatal(err)
				}
				if got := counted.Bytes == 1000; got != want || counted.Bytes%1000 != 0 {
					t.Errorf("scope %d charged with %d octets, want charged: %t", scope, counted.Bytes, want)
				}
			}
		})
	}
}

func TestFourScopesOfOnePacketAreAllCharged(t *testing.T) {
	p := plane(t, 4)
	for _, assign := range []func() error{
		func() error { return p.AssignUser(0, 1) },
		func() error { return p.AssignInterface(1, 2) },
		func() error { return p.AssignPrefix(netip.MustParsePrefix("10.0.0.0/8"), 3) },
	} {
		if err := assign(); err != nil {
			t.Fatal(err)
		}
	}
	for scope := range 4 {
		if err := p.Set(scope, Egress, slow(4, 50, 100)); err != nil {
			t.Fatal(err)
		}
	}
	send(t, p.objects.LimitEgress, datagram(t, false, 0, payload4))
	for scope := range 4 {
		if counted, err := p.Counters(scope, Egress); err != nil || counted.Bytes != 1000 {
			t.Errorf("scope %d charged with %d octets (%v), want 1000", scope, counted.Bytes, err)
		}
	}
	if n, err := p.Overflow(); err != nil || n != 0 {
		t.Errorf("overflow %d with four scopes (%v), want none", n, err)
	}
}
