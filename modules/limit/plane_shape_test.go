// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"strings"
	"testing"
	"time"

	"weir/core/match"
	"weir/core/module"
	"weir/core/policy"
	"weir/internal/direction"
	"weir/modules/limit/police"
	"weir/modules/limit/shape"
)

func TestScopesThatCanBeShaped(t *testing.T) {
	for text, want := range map[string]string{
		"a: {interface: eth0, ingress: {rate: 5Mbit, mode: shape}}":                                                     "",
		"a: {interface: eth0, ingress: {rate: 5Mbit, mode: police}}":                                                    "",
		"a: {interface: eth0, ingress: {rate: 5Mbit, mode: shapes}}":                                                    `"shapes" is not one of police, shape`,
		"a: {user: 7, egress: {rate: 5Mbit, by: delay}}":                                                                "scopes.a.egress.by: renamed: write mode: shape",
		"a: {user: 7, egress: {rate: 5Mbit, by: refusal}}":                                                              "scopes.a.egress.by: renamed: write mode: police",
		"a: {user: 7, egress: {rate: 5Mbit, mode: delay}}":                                                              "scopes.a.egress.mode: renamed: write mode: shape",
		"a: {user: 7, ingress: {rate: 5Mbit, mode: shape}}":                                                             "mode: shape requires a scope of an interface or a network namespace",
		"a: {user: 7, egress: {rate: 5Mbit, mode: shape}}":                                                              "",
		"a: {netns: blue, egress: {rate: 5Mbit, mode: shape}, ingress: {rate: 5Mbit, mode: shape}}":                     "",
		"a: {netns: blue, parent: b}\n  b: {egress: {rate: 9Mbit, mode: shape}, ingress: {rate: 9Mbit, mode: shape}}":   "",
		"a: {netns: blue, parent: b}\n  b: {user: 7, egress: {rate: 9Mbit, mode: shape}}":                               "use a group as the parent of both",
		"a: {user: 7, parent: b}\n  b: {netns: blue, egress: {rate: 9Mbit, mode: shape}}":                               "use a group as the parent of both",
		"a: {user: 7, loopback: true, egress: {rate: 5Mbit, mode: shape}}":                                              "packets over lo cannot be shaped",
		"a: {interface: lo, loopback: true, ingress: {rate: 5Mbit, mode: shape}}":                                       "packets over lo cannot be shaped",
		"a: {interface: eth0, parent: b, egress: 5Mbit}\n  b: {egress: {rate: 9Mbit, mode: shape}}":                     "",
		"a: {interface: eth0, parent: b}\n  b: {ingress: {rate: 9Mbit, mode: shape}}":                                   "",
		"a: {user: 7, parent: b}\n  b: {ingress: {rate: 9Mbit, mode: shape}}":                                           "mode: shape requires a scope of an interface or a network namespace",
		"a: {user: 7, parent: b, egress: {rate: 5Mbit, mode: shape}}\n  b: {egress: 9Mbit}":                             "different modes",
		"a: {user: 7, parent: b, egress: {mode: police}}\n  b: {egress: {rate: 9Mbit, mode: shape}}":                    "different modes",
		"a: {user: 7, parent: b}\n  b: {interface: eth0, egress: {rate: 9Mbit, mode: shape}}":                           "",
		"a: {interface: eth1, parent: b}\n  b: {parent: c}\n  c: {interface: eth0, egress: {rate: 9Mbit, mode: shape}}": "charged at each device",
		"a: {user: 7, parent: b, egress: {min: 1Mbit}}\n  b: {egress: {rate: 9Mbit, mode: shape}}":                      "guarantees no minimum",
	} {
		_, err := parse("p.yaml", []byte("version: 1\nscopes:\n  "+text+"\n"))
		if got := ""; want == "" {
			if err != nil {
				t.Errorf("%s: %v", text, err)
			}
		} else if err != nil {
			if got = err.Error(); !strings.Contains(got, want) {
				t.Errorf("%s: %s, want %s", text, got, want)
			}
		} else {
			t.Errorf("%s: accepted, want %s", text, want)
		}
	}
}

// Each direction belongs to one data plane; shadow directions to the policer, which changes no
// device.
func TestShapedAndPolicedDirectionsAreSeparate(t *testing.T) {
	p, err := parse("p.yaml", []byte(`version: 1
scopes:
  both: {interface: eth0, egress: 5Mbit, ingress: {rate: 5Mbit, mode: shape}}
  late: {interface: eth1, ingress: {rate: 5Mbit, mode: shape}}
  dark: {interface: eth2, shadow: true, ingress: {rate: 5Mbit, mode: shape}}
`))
	if err != nil {
		t.Fatal(err)
	}
	var all module.State
	for _, s := range p.Scopes {
		all.Scopes = append(all.Scopes, module.Bound{Scope: s, Treatment: s.Treatments[moduleName]})
	}
	rest := policedState(all).ByName()
	if both := treatmentOf(rest["both"].Scope); len(rest) != 2 || both.Egress == nil || both.Ingress != nil || treatmentOf(rest["dark"].Scope).Ingress == nil {
		t.Errorf("policed: %+v", rest)
	}
	if treatmentOf(all.Scopes[0].Scope).Ingress == nil {
		t.Error("the state was changed")
	}
	for i, want := range map[int]bool{0: true, 1: true, 2: false} {
		if got := shaped(all.Scopes[i].Scope, Ingress); got != want {
			t.Errorf("%s shaped: %t", all.Scopes[i].Name, got)
		}
	}
	for i, s := range []policy.Scope{all.Scopes[0].Scope, all.Scopes[1].Scope} {
		if anyCounted(s) != (i == 0) {
			t.Errorf("%s refuses: %t", s.Name, anyCounted(s))
		}
	}
}

// The parent of a shaper is the shaper of the parent scope.
func TestShapersReferToTheirParents(t *testing.T) {
	p, err := parse("p.yaml", []byte(`version: 1
scopes:
  link: {interface: eth0, egress: {rate: 5Mbit, mode: shape}}
  group: {parent: link}
  leaf: {user: 7, parent: group}
`))
	if err != nil {
		t.Fatal(err)
	}
	var all module.State
	for i, s := range p.Scopes {
		all.Scopes = append(all.Scopes, module.Bound{Scope: s, Index: i})
	}
	all.Scopes[0].Binding.Key = match.OfInterface(77)
	lines := map[string]shape.Shaper{}
	for _, b := range all.Scopes {
		lines[b.Name], _ = shaperOf(b, Egress, all.ByName())
	}
	for child, want := range map[string]uint32{"leaf": lines["group"].Key(), "group": 77, "link": 0} {
		if got := lines[child].Parent; got != want || (want == 0) != (child == "link") {
			t.Errorf("the parent of %s is %#x, want %#x", child, got, want)
		}
	}
}

// Policed scopes own the pace and window of all sockets, which plan warns of.
func TestMixedModesAreWarnedOf(t *testing.T) {
	for more, want := range map[string]map[Direction]int{
		"": {},
		"  b: {user: 7, egress: {rate: 5Mbit, mode: police}}\n":  {Egress: 1, Ingress: 1},
		"  b: {user: 7, egress: 5Mbit, shadow: true}\n":          {},
		"  b: {user: 7, ingress: {rate: 5Mbit, mode: police}}\n": {Ingress: 1},
		"  b: {user: 7, egress: 5Mbit, ingress: 5Mbit}\n":        {}, // the host chooses
		"  b: {user: 7, egress: {rate: 5Mbit, mode: shape}}\n":   {},
	} {
		for _, of := range direction.Both {
			p, err := parse("p.yaml", []byte("version: 1\nscopes:\n  a: {interface: eth0, "+of.String()+": {rate: 5Mbit, mode: shape}}\n"+more))
			if err != nil {
				t.Fatal(err)
			}
			if got := mixedModes(p); len(got) != want[of] {
				t.Errorf("%s with %q: %q", of, more, got)
			}
		}
	}
}

// The mechanism names the limits of an HTB class.
func TestMechanismReportsMissingFq(t *testing.T) {
	by, _ := shape.Available(Egress)
	if got := shapedBy(Egress); strings.Contains(got, "need fq") != (by == shape.HTB) {
		t.Errorf("by %q: %s", by, got)
	}
}

func TestHorizonOfAShaper(t *testing.T) {
	if got := (Limit{Rate: 50_000_000, Mode: police.ModeShape}).WithDefaults().Drop; got != 200*time.Millisecond {
		t.Errorf("horizon %v", got)
	}
	if got := (Limit{Rate: 50_000_000}).WithDefaults().Drop; got != 10*time.Millisecond {
		t.Errorf("drop threshold %v", got)
	}
}
