// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"weir/kernel/probe"
	"weir/kernel/testutil"
	"weir/modules/offload/live"
)

// With a budget the routes with most packets are offloaded, without less busy routes inside them.
// New traffic changes the selection. The table always forwards as the kernel does.
func TestABudgetIsForTheRoutesThatPacketsGoTo(t *testing.T) {
	for _, backend := range []string{byXDP, byFlower} {
		t.Run(backend, func(t *testing.T) {
			if backend == byFlower {
				testutil.Need(t, "flower", probe.Classifier("flower"))
			}
			const budget = 5
			r := newRouter(t, func(t *Treatment) { t.Backend, t.Budget, t.IPv6 = strings.TrimPrefix(backend, byXDP), budget, false })
			var dests []netip.Addr
			for i := range 20 {
				r.ip(fmt.Sprintf("route add 100.99.%d.0/24 via 10.2.0.%d", i, 2+i%2))
				dests = append(dests, netip.AddrFrom4([4]byte{100, 99, byte(i), 7}))
			}
			r.ip("route add 100.99.3.0/25 via 10.2.0.2")
			r.ip("route add 100.99.3.128/25 via 10.2.0.2")
			follower, err := live.Follow(r.Router)
			if err != nil {
				t.Fatal(err)
			}
			k := &runner{plane: r.plane, treatment: treatmentOf(r.state), follower: follower}
			t.Cleanup(func() { k.close(); follower.Close() })
			if err := k.begin(); err != nil {
				t.Fatal(err)
			}
			for i, busy := range [][]netip.Addr{dests[:4], dests[16:]} {
				passed := 0
				for range 2 {
					r.Stream(t, busy, 20+60*i) // differences beyond the hysteresis
					if err := k.chooseNow(chooseOver); err != nil {
						t.Fatal(err)
					}
				}
				chosen := k.planner.Chosen()
				if chosen.Rules > budget || chosen.Traffic == 0 {
					t.Errorf("chosen %+v", chosen)
				}
				for _, to := range busy {
					if !offloaded(k, to) {
						t.Errorf("%s is not offloaded, of %+v", to, chosen)
					}
				}
				for i := range dests {
					if offloaded(k, dests[i]) {
						passed++
					}
				}
				if passed > budget {
					t.Errorf("%d destinations are offloaded by %d prefixes", passed, budget)
				}
				v := r.verify()
				if !v.Holds() || v.Forwarded == 0 {
					t.Errorf("%+v", v.Document())
				}
			}
			report, err := r.plane.Report(r.state)
			if text := strings.Join(report.Note, "\n"); err != nil || !strings.Contains(text, "routes are selected, with") || report.Host[0].Count == 0 {
				t.Errorf("report %v, %v", report, err)
			}
			// A new follower continues from the samples.
			before := k.planner.Chosen()
			if err := k.begin(); err != nil {
				t.Fatal(err)
			}
			if now := k.planner.Chosen(); now.Carried < before.Carried {
				t.Errorf("chosen anew %+v, before %+v", now, before)
			}
		})
	}
}

func offloaded(k *runner, a netip.Addr) bool {
	return len(k.planner.Next(k.planner.Lookup(a)).Hops) > 0
}

// A traffic file is read, or rejected with the line.
func TestTrafficIsRead(t *testing.T) {
	all, err := ReadTraffic(strings.NewReader("# sFlow\n198.51.100.7 12\n\n198.51.100.7\n2001:db8::/32 5\n"), "t")
	if err != nil || len(all) != 2 || all[netip.MustParseAddr("198.51.100.7")] != 13 || all[netip.MustParseAddr("2001:db8::")] != 5 {
		t.Errorf("%v, %v", all, err)
	}
	for text, want := range map[string]string{"a 5": "t:1: \"a\" is not an address", "\n::1 -5": "t:2: \"-5\" is not a number", "::1 5 6": "t:1: the line has more", "::1 " + strings.Repeat("1", 70_000): "t: "} {
		if _, err := ReadTraffic(strings.NewReader(text), "t"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %q", text, err, want)
		}
	}
}
