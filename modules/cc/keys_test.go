// SPDX-License-Identifier: Apache-2.0

package cc

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/core/module"
	"weir/core/policy"
	"weir/core/selector"
	"weir/internal/fault"
)

// parse reads a policy with congestion controls only.
func parse(text string) (*policy.Policy, error) {
	language, err := policy.NewLanguage(selector.Language(), []policy.Grammar{grammar()}, nil)
	if err != nil {
		return nil, err
	}
	return language.Parse("p.yaml", []byte("version: 1\nscopes:\n"+text))
}

func TestChildrenHaveTheirParentsControl(t *testing.T) {
	p, err := parse(`  leaf: {unit: leaf.service, parent: work}
  other: {unit: other.service, parent: work, congestion: cubic}
  work: {parent: site}
  site: {congestion: dctcp}
  lone: {user: 7, congestion: some-control_1}
  under: {prefix: 10.0.0.0/8, parent: lone, downloads: rledbat}
  both: {user: 8, parent: under, congestion: cubic}
  receives: {user: 9, downloads: scavenger}
`)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, s := range p.Scopes {
		got[s.Name] = treatmentOf(s).Summary()
	}
	want := map[string]string{"leaf": "congestion dctcp", "other": "congestion cubic", "work": "congestion dctcp", "site": "congestion dctcp",
		"lone": "congestion some-control_1", "under": "congestion some-control_1, downloads rledbat",
		"both": "congestion cubic, downloads rledbat", "receives": "downloads scavenger"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	decoded, err := Module{}.Decode([]byte(`{"control":"dctcp"}`))
	if err != nil || !cmp.Equal(decoded, p.Scopes[0].Treatments[moduleName]) {
		t.Errorf("decoded %v, %v", decoded, err)
	}
}

func TestMistakesHaveTheirPlaces(t *testing.T) {
	for _, test := range []struct{ description, text, want string }{
		{"no name", "  a: {user: 1, congestion: ''}\n", `p.yaml:3:28: scopes.a: "" is no congestion control`},
		{"a blank", "  a: {user: 1, congestion: tcp bbr}\n", `p.yaml:3:28: scopes.a: "tcp bbr" is no congestion control`},
		{"too long", "  a: {user: 1, congestion: a234567890123456}\n", "p.yaml:3:28"},
		{"the name of sockets", "  a: {user: 1, congestion: weir_dctcp}\n", "write dctcp"},
		{"no way to receive", "  a: {user: 1, downloads: ledbat}\n", `"ledbat" does not hold downloads`},
		{"a list", "  a: {user: 1, congestion: [dctcp]}\n", "p.yaml:3:28"},
		{"nothing", "  a: {user: 1}\n", "give congestion"},
		{"too deep", "  s0: {user: 1, congestion: dctcp}\n" + deep(), "17 scopes above it"},
	} {
		t.Run(test.description, func(t *testing.T) {
			_, err := parse(test.text)
			if fault.Of(err) != fault.Usage || !strings.Contains(err.Error(), test.want) || fault.Advice(err) == "" {
				t.Errorf("got %v, want a usage error with %q", err, test.want)
			}
		})
	}
}

// deep has 17 nested scopes, the first below s0.
func deep() string {
	var text strings.Builder
	above := "s0"
	for _, letter := range "abcdefghijklmnopq" {
		text.WriteString("  " + string(letter) + ": {cgroup: /" + string(letter) + ", parent: " + above + "}\n")
		above = string(letter)
	}
	return text.String()
}

func TestOnlyWhatIsNearIsSuggested(t *testing.T) {
	for control, want := range map[string]int{"dctpc": 1, "cubik": 1, "dctcp": 0, "htcp": 0, "cubic": 0, "bbr": 0, "brand_new": 0} {
		p, err := parse("  a: {user: 1, congestion: " + control + "}\n")
		if err != nil || len(p.Warnings) != want {
			t.Errorf("%s: %v, %q", control, err, p.Warnings)
		}
		if want == 1 && !strings.Contains(p.Warnings[0], "p.yaml:3:28") {
			t.Errorf("no place: %s", p.Warnings[0])
		}
	}
}

// The notes about open connections name the change: connections keep their control, and windows
// follow their scope.
func TestWhatBecomesOfOpenConnections(t *testing.T) {
	state := func(text string) (s module.State) {
		if text == "" {
			return s
		}
		p, err := parse(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, scope := range p.Scopes {
			s.Scopes = append(s.Scopes, module.Bound{Scope: scope})
		}
		return s
	}
	const control, downloads = "keep their congestion control until they close", "get their windows back"
	for _, test := range []struct {
		have, want string
		notes      []string
	}{
		{"", "  a: {user: 7, congestion: reno}\n", []string{control}},
		{"", "  a: {user: 7, downloads: rledbat}\n", []string{downloads}},
		{"", "  a: {user: 7, congestion: reno, downloads: rledbat}\n", []string{control, downloads}},
		{"  a: {user: 7, congestion: reno, downloads: rledbat}\n", "  a: {user: 7, congestion: reno, downloads: scavenger}\n", []string{downloads}},
		{"  a: {user: 7, congestion: reno}\n", "  a: {user: 7, congestion: reno}\n", nil},
	} {
		got := openNotes(state(test.have), state(test.want))
		if len(got) != len(test.notes) {
			t.Errorf("%q: said %q", test.want, got)
			continue
		}
		for i, want := range test.notes {
			if !strings.Contains(got[i], want) {
				t.Errorf("%q: said %q, want %q", test.want, got[i], want)
			}
		}
	}
}
