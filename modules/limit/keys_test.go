// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/core/policy"
	"weir/core/selector"
	"weir/internal/fault"
	"weir/internal/units"
)

const examplePolicy = `version: 1
scopes:
  backups:
    unit: backup.service
    egress: 200Mbit
    ingress: {rate: 500Mbit, mark: 3ms, drop: 12ms}
  rack:
    prefix: 10.1.2.3/16
    egress: 5Gbit
    shadow: true
`

const familyPolicy = `version: 1
scopes:
  batch: {unit: batch.service, parent: work, egress: {weight: 3}}
  backups: {unit: backup.service, parent: work, egress: {rate: 150Mbit, min: 50Mbit}}
  work: {parent: site, egress: {rate: 200Mbit, weight: 2}}
  web: {unit: web.service, parent: site}
  site: {egress: 1Gbit, ingress: 500Mbit}
`

// parse reads a policy in a language of this module only.
func parse(name string, text []byte) (*policy.Policy, error) {
	language, err := policy.NewLanguage(selector.Language(), []policy.Grammar{grammar()}, nil)
	if err != nil {
		return nil, err
	}
	return language.Parse(name, text)
}

func treated(t Treatment) policy.Treatments { return policy.Treatments{moduleName: &t} }

// mistake is an invalid file and a part of its error.
type mistake struct{ name, text, want string }

// refused checks that each file is a usage error with advice.
func refused(t *testing.T, mistakes []mistake) {
	t.Helper()
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			_, err := parse("p.yaml", []byte(m.text))
			if fault.Of(err) != fault.Usage || !strings.Contains(err.Error(), m.want) {
				t.Errorf("got %v, want a usage error with %q", err, m.want)
			}
			if fault.Advice(err) == "" {
				t.Error("no way out")
			}
		})
	}
}

func TestEveryUsualWayToWriteARateIsRead(t *testing.T) {
	for text, want := range map[string]units.BitRate{
		"200Mbit": 200e6, "1.5 Gbit/s": 15e8, "64kbit": 64e3, "400 Gbit/s": 400e9, "64 kbps": 64e3, "10gbit": 10e9, "0.1Tbit": 100e9,
		"2.5Gbps": 25e8, "100 mbit/s": 100e6, "64000bit": 64e3, "64000 bit/s": 64e3, "1_000": 0,
	} {
		got, err := parse("p.yaml", []byte("version: 1\nscopes:\n  a: {host: true, egress: "+text+", ingress: {rate: "+text+"}}\n"))
		if want == 0 {
			if err == nil {
				t.Errorf("%s was read as %v", text, got.Scopes[0].Summary())
			}
			continue
		}
		if err != nil || treatmentOf(got.Scopes[0]).Egress.Rate != want || treatmentOf(got.Scopes[0]).Ingress.Rate != want {
			t.Errorf("%s: %v, want %d", text, err, want)
		}
	}
}

// A policy with the maximum number of scopes is read; a benchmark in bench/ measures the time.
func TestTenThousandScopesAreRead(t *testing.T) {
	var text strings.Builder
	text.WriteString("version: 1\nscopes:\n")
	for i := range 10_000 {
		selector := [...]string{"cgroup: /tenants/t%d", "prefix: 2001:db8:%x::/48", "user: %d"}[i%3]
		fmt.Fprintf(&text, "  # a tenant\n  s%d:\n    "+selector+"\n    egress: 10Mbit\n    ingress: {rate: 20Mbit, mark: 3ms, drop: 12ms}\n", i, i)
	}
	got, err := parse("p.yaml", []byte(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	last := policy.Scope{Name: "s9999", Selector: policy.Selector{Kind: "cgroup", Text: "/tenants/t9999", Words: "cgroup /tenants/t9999"}, Treatments: treated(Treatment{Egress: &Limit{Rate: 10e6},
		Ingress: &Limit{Rate: 20e6, Mark: 3 * time.Millisecond, Drop: 12 * time.Millisecond}})}
	if len(got.Scopes) != 10_000 || !got.Scopes[9999].Equal(last) || got.At("s9999", "egress") != "p.yaml:50001:13" {
		t.Errorf("%d scopes, the last %+v at %s", len(got.Scopes), got.Scopes[9999], got.At("s9999", "egress"))
	}
	wrong := strings.Replace(text.String(), "user: 5000", "usr: 5000", 1)
	if _, err := parse("p.yaml", []byte(wrong)); err == nil || err.Error() != `p.yaml:25005:5: unknown key "usr" in scopes.s5000 (did you mean "user"?)` {
		t.Errorf("a mistake in the middle: %v", err)
	}
}

func TestParseReadsTheFile(t *testing.T) {
	got, err := parse("p.yaml", []byte(examplePolicy))
	if err != nil {
		t.Fatal(err)
	}
	want := []policy.Scope{
		{Name: "backups", Selector: policy.Selector{Kind: "unit", Text: "backup.service", Words: "unit backup.service"}, Treatments: treated(Treatment{Egress: &Limit{Rate: 200e6},
			Ingress: &Limit{Rate: 500e6, Mark: 3 * time.Millisecond, Drop: 12 * time.Millisecond}})},
		{Name: "rack", Selector: policy.Selector{Kind: "prefix", Text: "10.1.0.0/16", Words: "remote prefix 10.1.0.0/16"}, Treatments: treated(Treatment{Egress: &Limit{Rate: 5e9}}), Shadow: true},
	}
	if diff := cmp.Diff(want, got.Scopes); diff != "" {
		t.Errorf("policy differs (-want +got):\n%s", diff)
	}
}

// For any text, Parse returns a policy or a usage error, and each scope of a policy has a name of
// its own.
func FuzzParse(f *testing.F) {
	f.Add(examplePolicy)
	f.Add("version: 1\nscopes: {a: {host: true, egress: {rate: 1Mbit, burst: 1ms}}}")
	f.Add("version: 1\nscopes: {a: {prefix: '::/0', ingress: 1Gbit}}")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parse("f.yaml", []byte(text))
		if err != nil {
			if fault.Of(err) != fault.Usage {
				t.Errorf("status %d: %v", fault.Of(err), err)
			}
			return
		}
		names := map[string]bool{}
		for _, s := range p.Scopes {
			if names[s.Name] || s.Selector.Kind == "" || treatmentOf(s) == nil {
				t.Errorf("accepted %+v", s)
			}
			names[s.Name] = true
		}
	})
}

func TestChildrenInheritFromTheirParents(t *testing.T) {
	got, err := parse("p.yaml", []byte(familyPolicy))
	if err != nil {
		t.Fatal(err)
	}
	unit := func(name string) policy.Selector {
		return policy.Selector{Kind: "unit", Text: name + ".service", Words: "unit " + name + ".service"}
	}
	want := []policy.Scope{
		{Name: "batch", Selector: unit("batch"), Parent: "work", Treatments: treated(Treatment{Egress: &Limit{Rate: 200e6, Weight: 3}, Ingress: &Limit{Rate: 500e6, Weight: 1}})},
		{Name: "backups", Selector: unit("backup"), Parent: "work", Treatments: treated(Treatment{Egress: &Limit{Rate: 150e6, Min: 50e6, Weight: 1}, Ingress: &Limit{Rate: 500e6, Weight: 1}})},
		// The parent reserves the minimum of the grandchild.
		{Name: "work", Selector: policy.Selector{Kind: "group", Words: "its children"}, Parent: "site", Treatments: treated(Treatment{Egress: &Limit{Rate: 200e6, Min: 50e6, Weight: 2}, Ingress: &Limit{Rate: 500e6, Weight: 1}})},
		{Name: "web", Selector: unit("web"), Parent: "site", Treatments: treated(Treatment{Egress: &Limit{Rate: 1e9, Weight: 1}, Ingress: &Limit{Rate: 500e6, Weight: 1}})},
		{Name: "site", Selector: policy.Selector{Kind: "group", Words: "its children"}, Treatments: treated(Treatment{Egress: &Limit{Rate: 1e9}, Ingress: &Limit{Rate: 500e6}})},
	}
	if diff := cmp.Diff(want, got.Scopes); diff != "" {
		t.Errorf("scopes differ (-want +got):\n%s", diff)
	}
	if len(got.Warnings) > 0 {
		t.Errorf("warnings: %v", got.Warnings)
	}
	const line = "egress 150 Mbit/s (min 50 Mbit/s), ingress 500 Mbit/s, of work"
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
		{"its own parent", scopes("a: {user: 7, parent: a, egress: 1Mbit}"), "p.yaml:3:24: scopes.a: it is its own ancestor: a → a"},
		{"a cycle", scopes("a: {parent: b, egress: 1Mbit}", "b: {parent: c, egress: 1Mbit}", "c: {parent: a, egress: 1Mbit}", "d: {user: 7, parent: c}"),
			"p.yaml:3:15: scopes.a: it is its own ancestor: a → b → c → a"},
		{"five levels", scopes("a: {user: 7, parent: b}", "b: {parent: c}", "c: {parent: d}", "d: {parent: e}", "e: {egress: 1Mbit}"),
			"p.yaml:3:24: scopes.a: it has 4 scopes above it, and a packet is charged to at most 4 scopes"},
		{"a group without children", scopes("g: {egress: 1Mbit}"), "p.yaml:3:7: scopes.g: has no selector"},
		{"a group that limits nothing", scopes("a: {user: 7, parent: g}", "g: {shadow: true}"), "scopes.g: has no treatment"},
		{"a minimum above the maximum", scopes("a: {user: 7, parent: g, egress: {rate: 10Mbit, min: 20Mbit}}", group),
			"p.yaml:3:36: scopes.a: egress: min 20 Mbit/s is above 10 Mbit/s"},
		{"a minimum above the parent's rate", scopes("a: {user: 7, parent: g, egress: {min: 200Mbit}}", group), "min 200 Mbit/s is above 100 Mbit/s"},
		{"minima that do not fit", scopes("a: {user: 7, parent: g, egress: {min: 60Mbit}}", "b: {user: 8, parent: g, egress: {min: 60Mbit}}", group),
			"p.yaml:5:15: scopes.g: egress: the minima of its children add up to 120 Mbit/s, above its rate of 100 Mbit/s"},
		{"minima that do not fit further up", scopes("a: {user: 7, parent: h, egress: {min: 60Mbit}}", "h: {parent: g, egress: {rate: 80Mbit}}",
			"b: {user: 8, parent: g, egress: {min: 60Mbit}}", group), "scopes.g: egress: the minima of its children add up to 120 Mbit/s"},
		{"no weight", scopes("a: {user: 7, parent: g, egress: {weight: 0}}", group), "p.yaml:3:36: scopes.a: egress: weight 0 is outside 1 to 10000"},
		{"too much weight", scopes("a: {user: 7, parent: g, egress: {weight: 10001}}", group), "weight 10001 is outside 1 to 10000"},
		{"a weight where the parent has no rate", scopes("a: {user: 7, parent: g, ingress: {weight: 2}}", group),
			"p.yaml:3:37: scopes.a: ingress: min and weight divide the rate of g, which has none in this direction"},
		{"no rate where the parent has none", scopes("a: {user: 7, parent: g, ingress: {mark: 2ms}}", group), "ingress: the rate is missing, and g has none"},
		{"a weight without a parent", scopes("a: {user: 7, egress: {rate: 1Mbit, weight: 2}}"), "p.yaml:3:25: scopes.a: egress: min and weight require a parent"},
		{"no burst", scopes("a: {user: 7, egress: {rate: 1Mbit, burst: 0s}}"), "egress: burst must be above 0s: leave it out for the default"},
		{"no mark", scopes("a: {user: 7, egress: {rate: 1Mbit, mark: 0s}}"), "egress: mark must be above 0s"},
		{"no drop", scopes("a: {user: 7, ingress: {rate: 1Mbit, drop: 0ms}}"), "ingress: drop must be above 0s"},
		{"no rate without a parent", scopes("a: {user: 7, egress: {mark: 2ms}}"), "egress: the rate is missing: only a scope with a parent may leave it out"},
	})
}

// A chain of the maximum length is rejected in linear time.
func TestLongChainsAreDropped(t *testing.T) {
	var text strings.Builder
	text.WriteString("version: 1\nscopes:\n  s0: {egress: 1Gbit}\n")
	for i := range 10_000 {
		fmt.Fprintf(&text, "  s%d: {user: %d, parent: s%d}\n", i+1, i, i)
	}
	if _, err := parse("p.yaml", []byte(text.String())); err == nil || !strings.Contains(err.Error(), "scopes.s4: it has 4 scopes above it") {
		t.Errorf("got %v", err)
	}
}

// Thresholds that contradict each other, or the defaults of the others, are mistakes.
func TestInvalidThresholdsAreMistakes(t *testing.T) {
	_, err := parse("p.yaml", []byte(`version: 1
scopes:
  long: {host: true, egress: {rate: 10Mbit, drop: 61s}}
  late: {user: 7, egress: 1Gbit, ingress: {rate: 1Gbit, mark: 50ms}}
  right: {user: 8, egress: {rate: 1Gbit, mark: 5ms}}
`))
	const want = "p.yaml:3:31: scopes.long: egress: drop threshold 1m1s is above a minute\n" +
		"p.yaml:4:44: scopes.late: ingress: mark threshold 50ms is not below the drop threshold 10ms less the reserve 200µs"
	if err == nil || err.Error() != want || fault.Of(err) != fault.Usage || fault.Advice(err) == "" {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}
