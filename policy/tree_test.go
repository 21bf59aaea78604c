package policy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const family = `version: 1
scopes:
  batch: {unit: batch.service, parent: work, egress: {weight: 3}}
  backups: {unit: backup.service, parent: work, egress: {rate: 150Mbit, min: 50Mbit}}
  work: {parent: site, egress: {rate: 200Mbit, weight: 2}}
  web: {unit: web.service, parent: site}
  site: {egress: 1Gbit, ingress: 500Mbit}
`

func TestChildrenCompleteWhatTheyHaveFromTheirParents(t *testing.T) {
	got, err := Parse("p.yaml", []byte(family))
	if err != nil {
		t.Fatal(err)
	}
	unit := func(name string) Selector { return Selector{Kind: Unit, Text: name + ".service"} }
	want := []Scope{
		{Name: "batch", Applies: unit("batch"), Parent: "work", Egress: &Rate{Rate: 200e6, Weight: 3}, Ingress: &Rate{Rate: 500e6, Weight: 1}},
		{Name: "backups", Applies: unit("backup"), Parent: "work", Egress: &Rate{Rate: 150e6, Min: 50e6, Weight: 1}, Ingress: &Rate{Rate: 500e6, Weight: 1}},
		// What it keeps for its child, its own parent keeps for it.
		{Name: "work", Applies: Selector{Kind: Group}, Parent: "site", Egress: &Rate{Rate: 200e6, Min: 50e6, Weight: 2}, Ingress: &Rate{Rate: 500e6, Weight: 1}},
		{Name: "web", Applies: unit("web"), Parent: "site", Egress: &Rate{Rate: 1e9, Weight: 1}, Ingress: &Rate{Rate: 500e6, Weight: 1}},
		{Name: "site", Applies: Selector{Kind: Group}, Egress: &Rate{Rate: 1e9}, Ingress: &Rate{Rate: 500e6}},
	}
	if diff := cmp.Diff(want, got.Scopes, compareAddresses); diff != "" {
		t.Errorf("scopes differ (-want +got):\n%s", diff)
	}
	if len(got.Warnings) > 0 {
		t.Errorf("warnings: %v", got.Warnings)
	}
	const line = "egress 150 Mbit/s (min 50 Mbit/s) (weight 1), ingress 500 Mbit/s (weight 1), of work"
	if got := got.Scopes[1].Summary(); got != line {
		t.Errorf("summary %q, want %q", got, line)
	}
}

func TestEveryMistakeOfATreeIsNamedWithItsPlace(t *testing.T) {
	scopes := func(lines ...string) string { return "version: 1\nscopes:\n  " + strings.Join(lines, "\n  ") + "\n" }
	group := "g: {egress: 100Mbit}"
	refused(t, []mistake{
		{"a parent that is not there", scopes("a: {user: 7, parent: groub, egress: 1Mbit}", "group: {egress: 1Mbit}", "b: {user: 8, parent: group}"),
			`p.yaml:3:24: scopes.a: there is no scope "groub" to be its parent (did you mean "group"?)`},
		{"its own parent", scopes("a: {user: 7, parent: a, egress: 1Mbit}"), "p.yaml:3:24: scopes.a: it is its own parent, by way of a → a"},
		{"a cycle", scopes("a: {parent: b, egress: 1Mbit}", "b: {parent: c, egress: 1Mbit}", "c: {parent: a, egress: 1Mbit}", "d: {user: 7, parent: c}"),
			"p.yaml:3:15: scopes.a: it is its own parent, by way of a → b → c → a"},
		{"five levels", scopes("a: {user: 7, parent: b}", "b: {parent: c}", "c: {parent: d}", "d: {parent: e}", "e: {egress: 1Mbit}"),
			"p.yaml:3:24: scopes.a: it has 4 scopes above it, and a packet is charged to 4 scopes at most"},
		{"a group without children", scopes("g: {egress: 1Mbit}"), "p.yaml:3:7: scopes.g: says 0 times which traffic is meant"},
		{"a group that limits nothing", scopes("a: {user: 7, parent: g}", "g: {shadow: true}"), "scopes.g: limits nothing"},
		{"a minimum above the maximum", scopes("a: {user: 7, parent: g, egress: {rate: 10Mbit, min: 20Mbit}}", group),
			"p.yaml:3:36: scopes.a: egress: min 20 Mbit/s is above 10 Mbit/s"},
		{"a minimum above the parent's rate", scopes("a: {user: 7, parent: g, egress: {min: 200Mbit}}", group), "min 200 Mbit/s is above 100 Mbit/s"},
		{"minima that do not fit", scopes("a: {user: 7, parent: g, egress: {min: 60Mbit}}", "b: {user: 8, parent: g, egress: {min: 60Mbit}}", group),
			"p.yaml:5:15: scopes.g: egress: its children have minima of 120 Mbit/s together, more than its rate of 100 Mbit/s"},
		{"minima that do not fit further up", scopes("a: {user: 7, parent: h, egress: {min: 60Mbit}}", "h: {parent: g, egress: {rate: 80Mbit}}",
			"b: {user: 8, parent: g, egress: {min: 60Mbit}}", group), "scopes.g: egress: its children have minima of 120 Mbit/s together"},
		{"no weight", scopes("a: {user: 7, parent: g, egress: {weight: 0}}", group), "p.yaml:3:36: scopes.a: egress: weight 0 is outside 1 to 10000"},
		{"too much weight", scopes("a: {user: 7, parent: g, egress: {weight: 10001}}", group), "weight 10001 is outside 1 to 10000"},
		{"a weight where the parent has no rate", scopes("a: {user: 7, parent: g, ingress: {weight: 2}}", group),
			"p.yaml:3:37: scopes.a: ingress: it has a part in g, which does not limit this direction"},
		{"no rate where the parent has none", scopes("a: {user: 7, parent: g, ingress: {mark: 2ms}}", group), "ingress: no rate is given, and g has none"},
		{"a weight without a parent", scopes("a: {user: 7, egress: {rate: 1Mbit, weight: 2}}"), "p.yaml:3:25: scopes.a: egress: min and weight speak of a part in a parent"},
		{"no rate without a parent", scopes("a: {user: 7, egress: {mark: 2ms}}"), "egress: no rate is given: only a scope with a parent may leave it out"},
	})
}

func TestRatesAboveTheParentsAreWarnedOf(t *testing.T) {
	got, err := Parse("p.yaml", []byte("version: 1\nscopes:\n  a: {user: 7, parent: g, egress: 200Mbit}\n  g: {egress: 100Mbit}\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"p.yaml:3:35: scope a: its egress of 200 Mbit/s is never reached, since its parent g, at p.yaml:4:15, has 100 Mbit/s: leave the rate out, or raise the parent's"}
	if diff := cmp.Diff(want, got.Warnings); diff != "" {
		t.Errorf("warnings differ (-want +got):\n%s", diff)
	}
}

// A chain as long as a file may be is refused without climbing it from every scope.
func TestLongChainsAreRefused(t *testing.T) {
	var text strings.Builder
	text.WriteString("version: 1\nscopes:\n  s0: {egress: 1Gbit}\n")
	for i := range 10_000 {
		fmt.Fprintf(&text, "  s%d: {user: %d, parent: s%d}\n", i+1, i, i)
	}
	if _, err := Parse("p.yaml", []byte(text.String())); err == nil || !strings.Contains(err.Error(), "scopes.s4: it has 4 scopes above it") {
		t.Errorf("got %v", err)
	}
}
