// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"context"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"weir/core/module"
	"weir/kernel/probe"
	"weir/kernel/testutil"
	"weir/modules/offload/flower"
	"weir/modules/offload/plan"
)

// newFilters returns a router with a policy for tc flower.
func newFilters(t *testing.T, backend string) *router {
	t.Helper()
	testutil.Need(t, "flower", probe.Classifier("flower"))
	return newRouter(t, func(o *Treatment) { o.Backend = backend })
}

// ingress returns a port's filters and qdiscs, as printed by tc(8).
func (r *router) ingress(dev string) string {
	r.t.Helper()
	text := ""
	for _, line := range []string{"qdisc show dev " + dev, "filter show dev " + dev + " ingress"} {
		out, err := exec.Command("tc", append([]string{"-n", r.Router.Name}, strings.Fields(line)...)...).CombinedOutput()
		if err != nil && !strings.Contains(string(out), "Parent Qdisc doesn't exists") {
			r.t.Fatalf("tc %s: %v\n%s", line, err, out)
		}
		text += string(out)
	}
	return text
}

func (r *router) tc(line string) {
	r.t.Helper()
	if out, err := exec.Command("tc", append([]string{"-n", r.Router.Name}, strings.Fields(line)...)...).CombinedOutput(); err != nil {
		r.t.Fatalf("tc %s: %v\n%s", line, err, out)
	}
}

// filterHop is hop for the rules of a port; 0 for the stack.
func (r *router) filterHop(dev, to string) byte {
	r.t.Helper()
	seen, err := flower.Read(r.Router, r.plane.host.Pins)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, p := range seen.Ports {
		if hops := p.Hops(netip.MustParseAddr(to)); p.Name == dev && len(hops) > 0 {
			return hops[0].Dst[5]
		}
	}
	return 0
}

func (r *router) verifiesFilters() {
	r.t.Helper()
	v := r.verify()
	for _, d := range v.Differences {
		r.t.Error(d)
	}
	if v.Forwarded == 0 {
		r.t.Errorf("nothing is forwarded: %+v", v)
	}
}

// Rules are installed, replaced, verified, reported and removed without a trace.
func TestTheLifeOfFilters(t *testing.T) {
	r := newFilters(t, byFlower)
	before := r.ingress("p0")
	if in, err := r.plane.InPlace(r.state); in || err != nil {
		t.Fatalf("in place before it was applied: %t, %v", in, err)
	}
	for range 3 { // as after a crash
		r.apply()
		r.verifiesFilters()
		if in, err := r.plane.InPlace(r.state); !in || err != nil {
			t.Fatalf("not in place: %v", err)
		}
	}
	report, err := r.plane.Report(r.state)
	if err != nil || len(report.Host) != len(fields()) || strings.Contains(strings.Join(report.Note, "\n"), "ALARM") {
		t.Errorf("report %+v, %v", report, err)
	}
	rules, err := Filters(r.Router, r.plane.host.Pins)
	if err != nil || len(rules) == 0 {
		t.Errorf("rules: %d, %v", len(rules), err)
	}
	for _, rule := range rules {
		const first, generation, shared, beforePrefixes = 0x7700000, 0x80000, 3, 6
		place := (rule.Chain - first) % generation
		if route := place < shared && rule.Priority > beforePrefixes; rule.Shared != (route || place == shared) {
			t.Errorf("%s: counted together: %t", rule, rule.Shared)
		}
	}
	if released, err := r.plane.Release(); !released || err != nil {
		t.Errorf("release: %t, %v", released, err)
	}
	if _, err := os.Stat(r.plane.host.Pins); !os.IsNotExist(err) {
		t.Errorf("the pins' folder is left: %v", err)
	}
	if after := r.ingress("p0"); after != before {
		t.Errorf("p0 was\n%s\nand is\n%s", before, after)
	}
	if released, err := r.plane.Release(); released || err != nil {
		t.Errorf("released twice: %t, %v", released, err)
	}
}

// An existing hook stays, and foreign filters are an error.
func TestWhatIsAtThePortIsLeft(t *testing.T) {
	r := newFilters(t, byFlower)
	r.tc("qdisc add dev p0 clsact")
	before := r.ingress("p0")
	r.apply()
	if _, err := r.plane.Release(); err != nil {
		t.Fatal(err)
	}
	if after := r.ingress("p0"); after != before {
		t.Errorf("p0 was\n%s\nand is\n%s", before, after)
	}
	r.tc("filter add dev p0 ingress prio 7 protocol ip flower dst_ip 203.0.113.1 action pass")
	if err := r.plane.Ready(r.state); err == nil || !strings.Contains(err.Error(), "foreign tc filter") {
		t.Errorf("a port with a filter: %v", err)
	}
	if _, err := r.plane.Apply(module.State{}, r.state); err == nil {
		t.Error("a port with a filter is taken")
	}
	if text := r.ingress("p1") + r.ingress("p0"); !strings.Contains(text, "203.0.113.1") || strings.Contains(text, "goto") {
		t.Errorf("after the rejection:\n%s", text)
	}
}

// A policy with another backend ends the rules or programs of the former one.
func TestBackendsTakeEachOthersPlace(t *testing.T) {
	r := newFilters(t, byFlower)
	filters := r.state
	before := r.ingress("p0")
	r.apply()
	treatment := *treatmentOf(filters)
	treatment.Backend = ""
	item := filters.Host[0]
	item.Treatment = &treatment
	r.state = module.State{Host: append(r.state.Host[:0:0], item)}
	r.apply()
	r.holds()
	if after := r.ingress("p0"); after != before {
		t.Errorf("p0 was\n%s\nand is\n%s", before, after)
	}
	r.state = filters
	r.apply()
	r.verifiesFilters()
	if names, err := os.ReadDir(r.plane.host.Pins); err != nil || strings.Contains(entriesOf(names), "table-") {
		t.Errorf("pins %s, %v", entriesOf(names), err)
	}
}

func entriesOf(all []os.DirEntry) string {
	var names []string
	for _, e := range all {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

// Software rules of a hardware policy raise an alarm. A device without support for filters is
// rejected before any change.
func TestRulesInSoftwareAgainstThePolicyAreAnAlarm(t *testing.T) {
	r := newFilters(t, byFlower)
	r.apply()
	asked := *treatmentOf(r.state)
	asked.Backend = byHardware
	item := r.state.Host[0]
	item.Treatment = &asked
	want := module.State{Host: append(r.state.Host[:0:0], item)}
	report, err := r.plane.Report(want)
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(report.Note, "\n"); !strings.Contains(text, "ALARM") || !strings.Contains(text, "not in the NIC at p0: chain") {
		t.Errorf("no alarm: %s", text)
	}
	unasked := report.Host[len(report.Host)-1]
	if unasked.Number == 0 {
		t.Errorf("values %+v", report.Host)
	}
	before := r.ingress("p0")
	if err := r.plane.Ready(want); err == nil || !strings.Contains(err.Error(), "accepts no filters") {
		t.Errorf("a veth is to do rules in hardware: %v", err)
	}
	if _, err := flower.Install(r.Router, r.plane.host.Pins, mustPlan(t, r), asked.mode(), Lease); err == nil || !strings.Contains(err.Error(), "the NIC rejects a rule") {
		t.Errorf("rules of a NIC at a veth: %v", err)
	}
	if after := r.ingress("p0"); after != before {
		t.Errorf("p0 was\n%s\nand is\n%s", before, after)
	}
	r.verifiesFilters() // the former rules stay active
}

func mustPlan(t *testing.T, r *router) *plan.Planner {
	t.Helper()
	p, err := r.plane.plan(treatmentOf(r.state))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Verification finds a rule that differs from the kernel.
func TestVerifyingFindsAWrongFilter(t *testing.T) {
	r := newFilters(t, byFlower)
	r.apply()
	r.ip("route add 100.64.3.0/24 via 10.1.0.2")
	v := r.verify()
	if v.Holds() || len(v.Differences) == 0 || !v.Differences[0].Harmful() {
		t.Fatalf("a route that the rules do not have is not found: %+v", v)
	}
}

// A follower applies routes and neighbours, and its rules are valid only while it runs.
func TestFiltersFollowTheKernelsRouting(t *testing.T) {
	r := newFilters(t, byFlower)
	r.apply()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	before, _ := os.ReadDir(r.plane.host.Pins)
	go func() { ended <- r.plane.Run(ctx, r.state) }()
	testutil.Eventually(t, time.Minute, "the follower's own rules", func() bool {
		now, _ := os.ReadDir(r.plane.host.Pins)
		return entriesOf(now) != entriesOf(before) && strings.Count(entriesOf(now), "filters-") == 1
	})
	becomes := func(to string, hop byte) {
		t.Helper()
		testutil.Eventually(t, time.Minute, "the change of "+to, func() bool { return r.filterHop("p0", to) == hop })
	}
	becomes("100.64.0.9", 2)
	r.ip("route replace 100.64.0.0/16 via 10.2.0.3")
	becomes("100.64.0.9", 3)
	r.ip("route add 100.64.0.8/29 via 10.2.0.2")
	becomes("100.64.0.9", 2)
	r.ip("route del 100.64.0.8/29")
	becomes("100.64.0.9", 3)
	r.ip("neigh replace 10.2.0.3 lladdr 02:aa:00:00:02:33 dev p1 nud permanent")
	becomes("100.64.0.9", 0x33)
	r.ip("neigh del 10.2.0.3 dev p1")
	becomes("100.64.0.9", 0)
	r.ip("neigh replace 10.2.0.3 lladdr 02:aa:00:00:02:03 dev p1 nud permanent")
	becomes("100.64.0.9", 3)
	r.ip("addr add 100.64.0.9/32 dev p0")
	becomes("100.64.0.9", 0)
	r.verifiesFilters()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	testutil.Eventually(t, time.Minute, "the end of the lease", func() bool {
		seen, err := flower.Read(r.Router, r.plane.host.Pins)
		if err != nil {
			t.Fatal(err)
		}
		lease, known, err := seen.Lease()
		return err == nil && known && lease < 0
	})
	report, err := r.plane.Report(r.state)
	if err != nil || !strings.Contains(strings.Join(report.Note, "\n"), "the lease has expired") {
		t.Errorf("report %+v, %v", report, err)
	}
}
