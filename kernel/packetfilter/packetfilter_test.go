// SPDX-License-Identifier: Apache-2.0

package packetfilter_test

import (
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/kernel/netns"
	"weir/kernel/packetfilter"
	"weir/kernel/testutil"
)

// run runs shell lines in a namespace.
func run(t *testing.T, ns *netns.Namespace, lines string) {
	t.Helper()
	err := ns.Do(func() error {
		out, err := exec.Command("sh", "-ec", lines).CombinedOutput()
		if err != nil {
			t.Logf("%s: %s", lines, out)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

const device = "ip link add v0 type veth peer name v1; ip link set v0 up; "

// Objects in the path of forwarded packets are listed by name; others are not.
func TestFiltersOfForwardedPacketsAreListed(t *testing.T) {
	cases := []struct {
		name, lines string
		want        []packetfilter.Filter
	}{
		{"nothing", "true", nil},
		{"a forward chain with policy drop", "nft add table inet fw; nft 'add chain inet fw f { type filter hook forward priority 0; policy drop; }'",
			[]packetfilter.Filter{{Name: "nftables chain inet fw f (filter, 0 rules, policy drop)", IPv4: true, IPv6: true}}},
		{"an empty chain that accepts", "nft add table inet fw; nft 'add chain inet fw f { type filter hook forward priority 0; policy accept; }'", nil},
		{"an input chain", "nft add table inet fw; nft 'add chain inet fw f { type filter hook input priority 0; policy drop; }'", nil},
		{"a rule of IPv6", "nft add table ip6 fw; nft 'add chain ip6 fw f { type filter hook prerouting priority 0; }'; nft add rule ip6 fw f counter",
			[]packetfilter.Filter{{Name: "nftables chain ip6 fw f (filter, 1 rules)", IPv6: true}}},
		{"masquerade", "nft add table ip n; nft 'add chain ip n p { type nat hook postrouting priority 100; }'; nft add rule ip n p masquerade",
			[]packetfilter.Filter{{Name: "nftables chain ip n p (nat, 1 rules)", IPv4: true}}},
		{"a device's ingress", device + "nft add table netdev d; nft 'add chain netdev d i { type filter hook ingress device v0 priority 0; policy drop; }'",
			[]packetfilter.Filter{{Name: "nftables chain netdev d i (filter, 0 rules, policy drop)", IPv4: true, IPv6: true, Device: "v0"}}},
		{"iptables-legacy", "iptables-legacy -A FORWARD -s 10.0.0.0/8 -j DROP",
			[]packetfilter.Filter{{Name: "iptables-legacy table filter", IPv4: true}}},
		{"a policy of iptables-legacy", "ip6tables-legacy -P FORWARD DROP", []packetfilter.Filter{{Name: "ip6tables-legacy table filter", IPv6: true}}},
		{"an empty table of iptables-legacy", "iptables-legacy -L", nil},
		{"an IPsec policy", "ip xfrm policy add dir fwd src 0.0.0.0/0 dst 203.0.113.0/24 action block",
			[]packetfilter.Filter{{Name: "IPsec policy src 0.0.0.0/0 dst 203.0.113.0/24 dir fwd action block", IPv4: true, To: netip.MustParsePrefix("203.0.113.0/24")}}},
		{"an IPsec policy of IPv6", "ip xfrm policy add dir out src 2001:db8::/32 dst ::/0 action allow",
			[]packetfilter.Filter{{Name: "IPsec policy src 2001:db8::/32 dst ::/0 dir out action allow", IPv6: true, To: netip.MustParsePrefix("::/0")}}},
		{"an IPsec policy for local packets", "ip xfrm policy add dir in src 0.0.0.0/0 dst 203.0.113.0/24 action block", nil},
		{"a default IPsec policy", "ip xfrm policy setdefault fwd block", []packetfilter.Filter{{Name: "IPsec default policy (ip xfrm policy getdefault)", IPv4: true, IPv6: true}}},
		{"a tc filter", device + "tc qdisc add dev v0 clsact; tc filter add dev v0 ingress prio 7 protocol all u32 match u32 0 0",
			[]packetfilter.Filter{{Name: "tc filter u32 (priority 7) at v0 ingress", IPv4: true, IPv6: true, Device: "v0"}}},
		{"a tc filter of an ingress qdisc", device + "tc qdisc add dev v0 ingress; tc filter add dev v0 parent ffff: prio 7 protocol all u32 match u32 0 0",
			[]packetfilter.Filter{{Name: "tc filter u32 (priority 7) at v0 ingress", IPv4: true, IPv6: true, Device: "v0"}}},
		{"a tc filter at egress", device + "tc qdisc add dev v0 clsact; tc filter add dev v0 egress prio 7 protocol all u32 match u32 0 0",
			[]packetfilter.Filter{{Name: "tc filter u32 (priority 7) at v0 egress", IPv4: true, IPv6: true, Device: "v0", Egress: true}}},
	}
	for _, c := range cases {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			testutil.NeedFilterCommand(t, c.lines)
			ns := testutil.Namespace(t, "filters")
			w, err := packetfilter.Follow(ns)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			run(t, ns, c.lines)
			all, err := packetfilter.Read(ns)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, all, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
				t.Error(diff)
			}
			if !strings.HasPrefix(c.lines, "nft ") && !strings.Contains(c.lines, "xfrm policy add") {
				return
			}
			if changed, err := w.Changed(); !changed || err != nil {
				t.Errorf("no event of a change: %v", err)
			}
			if changed, err := w.Changed(); changed || err != nil {
				t.Errorf("an event without a change: %v", err)
			}
		})
	}
}
