// SPDX-License-Identifier: Apache-2.0

package live_test

import (
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"weir/kernel/rtnl"
	"weir/kernel/testutil"
	"weir/modules/offload/live"
	"weir/modules/offload/state"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ip runs ip(8) in a namespace, as an independent source of configuration.
func ip(t *testing.T, ns, line string) {
	t.Helper()
	out, err := exec.Command("ip", append([]string{"-n", ns}, strings.Fields(line)...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("ip %s: %v\n%s", line, err, out)
	}
}

// Read returns everything that ip(8) has configured: links, addresses, neighbours, routes of all
// kinds, rules.
func TestTheKernelsRoutingIsRead(t *testing.T) {
	testutil.Command(t, "ip")
	one, two := testutil.Namespace(t, "one"), testutil.Namespace(t, "two")
	conn, err := rtnl.Open(one)
	must(t, err)
	defer conn.Close()
	must(t, conn.AddVeth("a", two, "b", 1500))
	peer, err := rtnl.Open(two)
	must(t, err)
	defer peer.Close()
	must(t, peer.SetUp("b"))
	for _, line := range []string{
		"addr add 192.0.2.1/24 dev a", "-6 addr add 2001:db8::1/64 dev a nodad", "link set dev a up",
		"neigh add 192.0.2.2 lladdr 02:00:00:00:00:02 dev a nud permanent", "neigh add 2001:db8::2 lladdr 02:00:00:00:00:03 dev a nud stale",
		"route add 198.51.100.0/24 via 192.0.2.2", "route add 203.0.113.0/24 nexthop via 192.0.2.2 weight 2 nexthop via 192.0.2.3 weight 1",
		"route add blackhole 198.18.0.0/15", "route add 198.51.100.128/25 via 192.0.2.2 mtu 1400 table 77 metric 5",
		"-6 route add 2001:db8:1::/48 via 2001:db8::2", "-6 route append 2001:db8:1::/48 via 2001:db8::3",
		"rule add from 10.0.0.0/8 lookup 77 priority 100", "rule add fwmark 5 lookup 77 priority 101",
	} {
		ip(t, one.Name, line)
	}
	s, err := live.Read(one)
	must(t, err)
	a, known := s.Find("a")
	if !known || a.MTU != 1500 || !a.Up || !a.Lower || !a.Ethernet || a.Kind != "veth" || a.MAC == (state.MAC{}) {
		t.Errorf("link %+v", a)
	}
	if !s.Addresses[state.Address{Link: a.Index, At: netip.MustParsePrefix("192.0.2.1/24")}] {
		t.Errorf("addresses %v", s.Addresses)
	}
	n := s.Neighbors[state.Where{Link: a.Index, At: netip.MustParseAddr("192.0.2.2")}]
	if !n.Valid || n.Stale || n.MAC != (state.MAC{2, 0, 0, 0, 0, 2}) {
		t.Errorf("neighbour %+v", n)
	}
	if n := s.Neighbors[state.Where{Link: a.Index, At: netip.MustParseAddr("2001:db8::2")}]; !n.Valid || !n.Stale {
		t.Errorf("stale neighbour %+v", n)
	}
	for to, want := range map[string]string{
		"192.0.2.0/24":    "dev a",
		"198.51.100.0/24": "via 192.0.2.2 dev a",
		"203.0.113.0/24":  "via 192.0.2.2 dev a weight 2, via 192.0.2.3 dev a weight 1",
		"2001:db8:1::/48": "via 2001:db8::2 dev a weight 1, via 2001:db8::3 dev a weight 1",
		"198.18.0.0/15":   "",
	} {
		e, there := s.Tables[state.MainTable][netip.MustParsePrefix(to)]
		if got := s.Words(e.Best.Group); !there || got != want || e.Best.Several {
			t.Errorf("%s goes %q, want %q: %+v", to, got, want, e)
		}
	}
	if e := s.Tables[77][netip.MustParsePrefix("198.51.100.128/25")]; e.Best.MTU != 1400 || e.Best.Metric != 5 {
		t.Errorf("route with metrics: %+v", e)
	}
	if e := s.Tables[state.LocalTable][netip.MustParsePrefix("192.0.2.1/32")]; e.Best.Type != state.Local {
		t.Errorf("own address: %+v", e)
	}
	var rules []string
	for _, r := range s.Rules {
		if r.Priority >= 100 && r.Priority < 102 {
			rules = append(rules, r.From.String()+r.Other)
		}
	}
	if len(rules) != 2 || rules[0] != "10.0.0.0/8" || rules[1] != "invalid Prefixfwmark" {
		t.Errorf("rules %q", rules)
	}
}
