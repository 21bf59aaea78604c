// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"weir/core/module"
	"weir/kernel/testutil"
)

// ingressFilters are filters of others that drop datagrams at eth0, by the commands that add and
// remove them.
var ingressFilters = map[string]struct{ add, remove string }{
	"tc filter": {"ip link add hole type ifb && tc qdisc add dev eth0 clsact && " +
		"tc filter add dev eth0 ingress protocol ip prio 1 u32 match ip protocol 17 0xff action mirred egress redirect dev hole",
		"tc qdisc del dev eth0 clsact"},
	"tc filter of the ingress qdisc": {"ip link add hole type ifb && tc qdisc add dev eth0 handle ffff: ingress && " +
		"tc filter add dev eth0 parent ffff: protocol all prio 5 u32 match u32 0 0 match ip protocol 17 0xff action mirred egress redirect dev hole",
		"tc qdisc del dev eth0 ingress"},
	"nftables chain": {"nft add table netdev fw && nft 'add chain netdev fw in { type filter hook ingress device eth0 priority 0; }' && " +
		"nft add rule netdev fw in ip protocol udp drop", "nft delete table netdev fw"},
	"nftables chain of inet": {"nft add table inet fw && nft 'add chain inet fw in { type filter hook ingress device eth0 priority 0; }' && " +
		"nft add rule inet fw in meta l4proto udp drop", "nft delete table inet fw"},
}

// Filters of others at the ingress of a shaped device stay effective: the direction is policed
// while there are any, and plan, apply and status report it.
func TestIngressFiltersOfOthersStayEffective(t *testing.T) {
	for name, filter := range ingressFilters {
		t.Run(name, func(t *testing.T) {
			d := newShapedHost(t)
			shell := func(line string) error {
				return d.at.Do(func() error {
					out, err := exec.Command("sh", "-c", line).CombinedOutput()
					if err != nil {
						t.Logf("%s: %s", line, out)
					}
					return err
				})
			}
			const scopes = "  a: {interface: eth0, ingress: {rate: 8Mbit, mode: shape}}\n"
			notes := func() (all []string) {
				d.do(func() error {
					report, err := d.plane.Report(d.have)
					all = append(report.Note, d.plane.(module.PlanNoter).PlanNotes(d.have)...)
					return err
				})
				return all
			}
			reported := func(text string, times int) {
				t.Helper()
				if got := slices.DeleteFunc(notes(), func(s string) bool { return !strings.Contains(s, text) }); len(got) != times {
					t.Errorf("%d notes contain %q, want %d: %q", len(got), text, times, notes())
				}
			}
			policed := func() (is bool) {
				d.do(func() error {
					have, err := d.plane.(*plane).active(d.have)
					is = err == nil && counted(have.Scopes[0].Scope, Ingress)
					return err
				})
				return is
			}
			current := func() (is bool) {
				d.do(func() error {
					outdated, err := d.plane.(*plane).Outdated(d.have)
					if in, err := d.plane.InPlace(d.have); !in || err != nil {
						t.Errorf("in place %t, %v", in, err)
					}
					is = !outdated
					return err
				})
				return is
			}
			exchange := d.talk(0)
			testutil.Need(t, name, shell(filter.add))
			d.apply(scopes)
			exchange() // TCP passes the filter
			reported("policed instead of shaped", 2)
			if !policed() || !current() {
				t.Errorf("with the filter: policed %t, current %t", policed(), current())
			}
			if err := shell(filter.remove); err != nil {
				t.Fatal(err)
			}
			if current() {
				t.Error("without the filter the policed direction is said to be current")
			}
			d.apply(scopes)
			exchange()
			reported("filters", 0)
			if policed() || !current() {
				t.Errorf("without the filter: policed %t, current %t", policed(), current())
			}
			if err := shell(strings.TrimPrefix(filter.add, "ip link add hole type ifb && ")); err != nil {
				t.Fatal(err)
			}
			reported("bypasses filters that others have added", 1)
			if current() {
				t.Error("a shaper that bypasses a filter is said to be current")
			}
			d.apply(scopes)
			exchange()
			if !policed() || !current() {
				t.Errorf("with the filter again: policed %t, current %t", policed(), current())
			}
		})
	}
}

// The egress of a network namespace enters at the local end of its veth pair, which may have
// filters too.
func TestIngressFiltersOfNamespacesStayEffective(t *testing.T) {
	d := newShapedHost(t)
	d.at = d.server
	out, err := exec.Command("ip", "netns", "exec", d.server.Name, "sh", "-c", ingressFilters["tc filter"].add).CombinedOutput()
	testutil.Need(t, "tc filter", err)
	if err != nil {
		t.Fatalf("%s", out)
	}
	scopes := "  a: {netns: " + d.client.Name + ", egress: {rate: 8Mbit, mode: shape}}\n"
	d.apply(scopes)
	d.do(func() error {
		have, err := d.plane.(*plane).active(d.have)
		if err == nil && !counted(have.Scopes[0].Scope, Egress) {
			t.Error("the namespace is shaped")
		}
		return err
	})
	d.do(func() error {
		if notes := d.plane.(module.PlanNoter).PlanNotes(d.have); len(notes) != 1 || !strings.Contains(notes[0], "egress is policed instead of shaped") {
			t.Errorf("notes %q", notes)
		}
		return nil
	})
}

// All scopes of a tree have one mode.
func TestTreesArePolicedAsAWhole(t *testing.T) {
	d := newShapedHost(t)
	testutil.Need(t, "tc filter", exec.Command("ip", "netns", "exec", d.client.Name, "sh", "-c", ingressFilters["tc filter"].add).Run())
	d.second()
	d.do(func() error {
		all := bound(t, d.host, map[string]int{}, `
  a: {interface: eth0, parent: g}
  b: {interface: eth1, parent: g, egress: {rate: 5Mbit, mode: shape}}
  c: {interface: lo2, ingress: {rate: 5Mbit, mode: shape}}
  g: {ingress: {rate: 9Mbit, mode: shape}}
`)
		got, avoided, err := avoidFilters(d.plane.(*plane).shape, all)
		if err != nil || len(avoided) != 1 || avoided[0].scope != "a" {
			t.Fatalf("%v, %v", avoided, err)
		}
		for _, b := range got.Scopes {
			if counted(b.Scope, Ingress) != (b.Name != "c") || shaped(b.Scope, Egress) != (b.Name == "b") {
				t.Errorf("%s: %+v", b.Name, treatmentOf(b.Scope))
			}
		}
		return nil
	})
}
