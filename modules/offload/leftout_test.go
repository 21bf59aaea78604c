// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"weir/core/module"
	"weir/kernel/ethtool"
	"weir/kernel/testutil"
	"weir/modules/offload/live"
	"weir/modules/offload/plan"
	"weir/modules/offload/state"
)

// within runs shell lines in the router's namespace.
func (r *router) within(lines string) {
	r.t.Helper()
	err := r.Router.Do(func() error {
		out, err := exec.Command("sh", "-ec", lines).CombinedOutput()
		if err != nil {
			r.t.Logf("%s: %s", lines, out)
		}
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// Packets that a firewall, an IPsec policy or a tc filter may decide about stay with the kernel.
// Plan, apply, status and verification name it.
func TestFilteredPacketsAreLeftToTheKernel(t *testing.T) {
	cases := []struct {
		name, lines, note string
		hop               byte // of 100.64.0.9, 0 for the CPU
		sent4, sent6      bool // test runs forward packets
		arrive            bool // by the kernel
	}{
		{"a forward chain with policy drop", "nft add table inet fw; nft 'add chain inet fw f { type filter hook forward priority 0; policy drop; }'", "nftables chain inet fw f (filter, 0 rules, policy drop)", 2, false, false, false},
		{"a counting rule of IPv4", "nft add table ip fw; nft 'add chain ip fw f { type filter hook forward priority 0; }'; nft add rule ip fw f counter", "nftables chain ip fw f (filter, 1 rules)", 2, false, true, true},
		{"masquerade", "nft add table ip n; nft 'add chain ip n p { type nat hook postrouting priority 100; }'; nft add rule ip n p oifname none0 masquerade", "nftables chain ip n p (nat, 1 rules)", 2, false, true, true},
		{"iptables-legacy", "iptables-legacy -A FORWARD -s 192.0.2.0/24 -j DROP", "iptables-legacy table filter", 2, false, true, true},
		{"an IPsec policy", "ip xfrm policy add dir fwd src 0.0.0.0/0 dst 100.64.0.0/17 action block", "IPsec policy src 0.0.0.0/0 dst 100.64.0.0/17 dir fwd action block", 0, true, true, false},
		{"an IPsec policy for all", "ip xfrm policy add dir out src 10.1.0.0/16 dst 0.0.0.0/0 action block", "IPsec policy src 10.1.0.0/16 dst 0.0.0.0/0 dir out action block", 2, false, true, false},
		{"a tc filter at ingress", "tc qdisc add dev p0 clsact; tc filter add dev p0 ingress prio 7 protocol all u32 match u32 0 0", "tc filter u32 (priority 7) at p0 ingress", 2, true, true, true},
		{"a tc filter at egress", "tc qdisc add dev p1 clsact; tc filter add dev p1 egress prio 7 protocol all u32 match u32 0 0", "tc filter u32 (priority 7) at p1 egress", 0, true, true, true},
	}
	for _, c := range cases {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			testutil.NeedFilterCommand(t, c.lines)
			r := newRouter(t, nil)
			r.within(c.lines)
			notes, err := r.plane.Apply(module.State{}, r.state)
			if err != nil {
				t.Fatal(err)
			}
			for at, said := range map[string][]string{"apply": notes, "plan": r.plane.PlanNotes(r.state), "status": report(t, r), "verify": r.verify().Left} {
				if !strings.Contains(strings.Join(said, "\n"), c.note) {
					t.Errorf("%s does not name the filter: %v", at, said)
				}
			}
			if hop := r.hop("100.64.0.9"); hop != c.hop {
				t.Errorf("hop %d of the table, want %d", hop, c.hop)
			}
			v := r.verify()
			if !v.Holds() || (v.Sent > 0) != (c.sent4 || c.sent6) {
				t.Errorf("verification: %+v", v)
			}
			before := r.forwarded()
			if c.arrive {
				r.Stream(t, []netip.Addr{netip.MustParseAddr("100.64.0.9")}, 1)
			}
			if after := r.forwarded(); after != before {
				t.Errorf("%d packets bypassed the filter", after-before)
			}
			summary, err := Summarize(treatmentOf(r.state), mustRead(t, r), nil, false, true)
			if err != nil || !strings.Contains(summary.Words(), c.note) || len(summary.Differences) > 0 || summary.Left[string(plan.WhyFilter)] == 0 && strings.HasPrefix(c.note, "nft") {
				t.Errorf("plan: %+v, %v", summary, err)
			}
		})
	}
}

func report(t *testing.T, r *router) []string {
	t.Helper()
	all, err := r.plane.Report(r.state)
	if err != nil {
		t.Fatal(err)
	}
	return all.Note
}

// A filter that appears ends the fast path of its packets at once, and one that disappears restores
// it.
func TestFiltersAreFollowed(t *testing.T) {
	testutil.NeedSpeed(t) // a table is valid for seconds of real time
	for name, lines := range map[string][2]string{
		"nftables": {"nft add table ip fw; nft 'add chain ip fw f { type filter hook forward priority 0; }'; nft add rule ip fw f counter", "nft delete table ip fw"},
		"legacy":   {"iptables-legacy -A FORWARD -s 192.0.2.0/24 -j DROP", "iptables-legacy -F FORWARD"},
		"xfrm":     {"ip xfrm policy add dir fwd src 192.0.2.0/24 dst 0.0.0.0/0 action block", "ip xfrm policy flush"},
	} {
		t.Run(name, func(t *testing.T) {
			testutil.NeedFilterCommand(t, lines[0])
			r := newRouter(t, func(t *Treatment) { t.IPv6 = false })
			r.follow()
			r.within(lines[0])
			testutil.Eventually(t, time.Minute, "the end of the fast path", func() bool { v := r.verify(); return v.Holds() && v.Sent == 0 && len(v.Left) == 1 })
			before := r.forwarded()
			r.Stream(t, []netip.Addr{netip.MustParseAddr("100.64.0.9")}, 1)
			if after := r.forwarded(); after != before {
				t.Errorf("%d packets bypassed the filter", after-before)
			}
			r.within(lines[1])
			testutil.Eventually(t, time.Minute, "the fast path again", func() bool { v := r.verify(); return v.Holds() && v.Sent > 0 && len(v.Left) == 0 })
		})
	}
}

// Packets to a prefix with routes for some sources stay with the kernel, in plan, table and state
// file, also after the route is removed.
func TestRoutesBySourceAreLeftToTheKernel(t *testing.T) {
	testutil.NeedSpeed(t) // a table is valid for seconds of real time
	r := newRouter(t, nil)
	r.follow()
	r.becomes("2001:db8:6400:1::9", 2)
	r.ip("-6 route add 2001:db8:6400:1::/64 from 2001:db8:1::/64 via 2001:db8:2::3")
	r.becomes("2001:db8:6400:1::9", 0)
	r.holds()
	s := mustRead(t, r)
	var text strings.Builder
	if err := s.Write(&text); err != nil || !strings.Contains(text.String(), " from 2001:db8:1::/64") {
		t.Errorf("the state file lacks the source: %v", err)
	}
	r.ip("-6 route add 2001:db8:6400:1::/64 via 2001:db8:2::2")
	r.ip("-6 route del 2001:db8:6400:1::/64 from 2001:db8:1::/64")
	r.becomes("2001:db8:6400:1::9", 2)
	r.holds()
}

// A port that is deleted ends its own packets' fast path alone, and one that returns is used again.
func TestADeletedPortIsWaitedFor(t *testing.T) {
	testutil.NeedSpeed(t) // a table is valid for seconds of real time
	r := newRouter(t, func(t *Treatment) { t.From = append(t.From, "p2") })
	notes := r.plane.PlanNotes(r.state)
	if len(notes) != 1 || !strings.Contains(notes[0], "p2") {
		t.Errorf("plan: %v", notes)
	}
	r.follow()
	r.becomes("100.64.0.9", 2)
	r.ip("link add p2 type veth peer name q2")
	r.ip("link set p2 up")
	testutil.Eventually(t, time.Minute, "the new port", func() bool { return len(r.plane.PlanNotes(r.state)) == 0 && inPlace(r) })
	r.ip("link del p2")
	r.becomes("100.64.0.9", 2)
	testutil.Eventually(t, time.Minute, "the end of the port", func() bool { return inPlace(r) })
	r.holds()
}

func inPlace(r *router) bool {
	in, err := r.plane.InPlace(r.state)
	return in && err == nil
}

// Verification with forwarding off expects the kernel to get all packets.
func TestVerificationWithoutForwarding(t *testing.T) {
	r := newRouter(t, nil)
	r.within("sysctl -qw net.ipv4.ip_forward=0 net.ipv6.conf.all.forwarding=0")
	r.apply()
	if v := r.verify(); !v.Holds() || v.Sent > 0 {
		t.Errorf("%+v", v)
	}
}

func TestADifferenceIsListedOnce(t *testing.T) {
	r := newRouter(t, nil)
	r.apply()
	r.within("sysctl -qw net.ipv4.ip_forward=0 net.ipv6.conf.all.forwarding=0")
	v := r.verify()
	if v.Holds() || len(v.Wrong) == 0 {
		t.Fatalf("%+v", v)
	}
	lines := v.Document().Differences
	seen := map[string]bool{}
	for _, line := range lines {
		first, _, _ := strings.Cut(line, "\n")
		if seen[first] {
			t.Errorf("%q is listed twice", first)
		}
		seen[first] = true
	}
}

func mustRead(t *testing.T, r *router) *state.State {
	t.Helper()
	s, err := live.Read(r.Router)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A veth port with a peer without NAPI drops redirected frames: it stays with the kernel, and is
// used as soon as its peer delivers.
func TestAPortThatDoesNotDeliverIsLeftToTheKernel(t *testing.T) {
	testutil.NeedSpeed(t) // a table is valid for seconds of real time
	r := newRouter(t, nil)
	gro := func(on bool) {
		if err := ethtool.SetFeatures(r.Far(), "r", map[string]bool{"gro": on}); err != nil {
			t.Fatal(err)
		}
	}
	gro(false)
	if notes := strings.Join(r.plane.PlanNotes(r.state), "\n"); !strings.Contains(notes, "veth p1 without GRO") {
		t.Errorf("plan: %s", notes)
	}
	r.follow()
	r.becomes("100.64.0.9", 0)
	r.Stream(t, []netip.Addr{netip.MustParseAddr("100.64.0.9")}, 1)
	if n := r.forwarded(); n != 0 {
		t.Errorf("%d packets were forwarded to a port that drops them", n)
	}
	if notes := strings.Join(report(t, r), "\n"); !strings.Contains(notes, "veth p1 without GRO") {
		t.Errorf("status: %s", notes)
	}
	r.holds()
	gro(true)
	r.becomes("100.64.0.9", 2)
	r.Stream(t, []netip.Addr{netip.MustParseAddr("100.64.0.9")}, 1)
	gro(false)
	r.becomes("100.64.0.9", 0)
	r.Stream(t, []netip.Addr{netip.MustParseAddr("100.64.0.9")}, 1)
}
