package policy

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"weir/internal/fault"
	"weir/internal/units"
)

const example = `version: 1
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

var compareAddresses = cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })

func TestParseReadsWhatTheFileSays(t *testing.T) {
	got, err := Parse("p.yaml", []byte(example))
	if err != nil {
		t.Fatal(err)
	}
	want := &Policy{Scopes: []Scope{
		{Name: "backups", Applies: Selector{Kind: Unit, Text: "backup.service"}, Egress: &Rate{Rate: 200e6},
			Ingress: &Rate{Rate: 500e6, Mark: 3 * time.Millisecond, Drop: 12 * time.Millisecond}},
		{Name: "rack", Applies: Selector{Kind: Prefix, Prefix: netip.MustParsePrefix("10.1.0.0/16")}, Egress: &Rate{Rate: 5e9}, Shadow: true},
	}}
	if diff := cmp.Diff(want, got, compareAddresses, cmpopts.IgnoreUnexported(Policy{})); diff != "" {
		t.Errorf("policy differs (-want +got):\n%s", diff)
	}
}

func TestEveryUsualWayToWriteARateIsRead(t *testing.T) {
	for text, want := range map[string]units.BitRate{
		"200Mbit": 200e6, "1.5 Gbit/s": 15e8, "64kbit": 64e3, "400 Gbit/s": 400e9, "64 kbps": 64e3, "10gbit": 10e9, "0.1Tbit": 100e9,
		"2.5Gbps": 25e8, "100 mbit/s": 100e6, "64000bit": 64e3, "64000 bit/s": 64e3, "1_000": 0,
	} {
		got, err := Parse("p.yaml", []byte("version: 1\nscopes:\n  a: {host: true, egress: "+text+", ingress: {rate: "+text+"}}\n"))
		if want == 0 {
			if err == nil {
				t.Errorf("%s was read as %v", text, got.Scopes[0].Egress)
			}
			continue
		}
		if err != nil || got.Scopes[0].Egress.Rate != want || got.Scopes[0].Ingress.Rate != want {
			t.Errorf("%s: %v, want %d", text, err, want)
		}
	}
}

// mistake is a file that is to be refused, with an error that says want.
type mistake struct{ name, text, want string }

// refused parses files with mistakes: each is a usage error with a way out.
func refused(t *testing.T, mistakes []mistake) {
	t.Helper()
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			_, err := Parse("p.yaml", []byte(m.text))
			if fault.Of(err) != fault.Usage || !strings.Contains(err.Error(), m.want) {
				t.Errorf("got %v, want a usage error with %q", err, m.want)
			}
			if fault.Advice(err) == "" {
				t.Error("no way out")
			}
		})
	}
}

func TestParseNamesEveryMistakeWithItsPlace(t *testing.T) {
	scope := func(text string) string { return "version: 1\nscopes:\n  a:\n    " + text + "\n" }
	refused(t, []mistake{
		{"an unknown key", scope("cgroup: /a\n    egres: 1Mbit"), `p.yaml:5:5: unknown key "egres" in scopes.a (did you mean "egress"?)`},
		{"another version", "version: 2\nscopes: {a: {host: true, egress: 1Mbit}}", "p.yaml:1:10: version 2 is not known"},
		{"no selector", scope("egress: 1Mbit"), "says 0 times which traffic is meant"},
		{"two selectors", scope("cgroup: /a\n    user: 7\n    egress: 1Mbit"), "says 2 times which traffic is meant"},
		{"no limit", scope("cgroup: /a"), "limits nothing"},
		{"a rate of zero", scope("cgroup: /a\n    egress: 0"), "egress: rate 0 bit/s is outside 64 kbit/s to 400 Gbit/s"},
		{"a rate in octets", scope("cgroup: /a\n    egress: 100MBps"), `p.yaml:5:13: scopes.a.egress: rate "100MBps" counts octets`},
		{"a misspelt unit", scope("cgroup: /a\n    egress: 100Mbti"), `did you mean "100Mbit"?`},
		{"a rate without unit", scope("cgroup: /a\n    egress: 100"), "no unit"},
		{"not a prefix", scope("prefix: 10.0.0.0/40\n    egress: 1Mbit"), `p.yaml:4:13: scopes.a: "10.0.0.0/40" is no prefix`},
		{"a prefix beside nothing", scope("prefix: hello\n    egress: 1Mbit"), `"hello" is no prefix`},
		{"the root cgroup", scope("cgroup: /\n    egress: 1Mbit"), "host: true"},
		{"a path out of the hierarchy is taken as one inside", scope("cgroup: ../..\n    egress: 1Mbit"), "host: true"},
		{"not a unit", scope("unit: backup\n    egress: 1Mbit"), `"backup" is no systemd unit`},
		{"a user below zero", scope("user: -1\n    egress: 1Mbit"), "-1 is no user id"},
		{"thresholds in the wrong order", scope("host: true\n    egress: {rate: 1Mbit, mark: 5ms, drop: 5ms}"), "mark 5ms is not below drop 5ms"},
		{"the same traffic twice", "version: 1\nscopes:\n  a: {user: 7, egress: 1Mbit}\n  b: {user: 7, egress: 2Mbit}\n",
			"p.yaml:4:3: scopes.b: user 7 has a scope already, a at p.yaml:3:3"},
		{"the same name twice", "version: 1\nscopes:\n  a: {user: 7, egress: 1Mbit}\n  a: {user: 8, egress: 2Mbit}\n", "p.yaml:4:3"},
		{"nothing", "", "p.yaml: the file is empty"},
		{"a misspelt key that must be given", "version: 1\nscope: {a: {host: true, egress: 1Mbit}}\n", `p.yaml:2:1: unknown key "scope" (did you mean "scopes"?)`},
		{"a key that must be given without a value", "version: 1\nscopes:\n", "p.yaml:2:9: scopes: no value is given"},
		{"no YAML", "scopes: [", "p.yaml:1"},
	})
}

// Mistakes of different kinds are told at once, each once: what cannot be read is not judged as well.
func TestAllMistakesOfAFileAreNamedAtOnce(t *testing.T) {
	_, err := Parse("p.yaml", []byte(`version: 1
scopes:
  a: {cgroup: /a, egres: 1Mbit}
  b: {cgroup: /b, egress: 1kbit}
  c: {cgroup: /b, egress: {rate: 1Mbit, mark: 9ms, drop: 5ms}}
  d: {user: root}
  e: {user: 7, parent: nowhere}
  f: {egress: 1Gbit}
  g: {unit: x.service, parnt: f}
`))
	const want = `p.yaml:3:19: unknown key "egres" in scopes.a (did you mean "egress"?)
p.yaml:4:27: scopes.b: egress: rate 1 kbit/s is outside 64 kbit/s to 400 Gbit/s
p.yaml:5:3: scopes.c: cgroup /b has a scope already, b at p.yaml:4:3: two limits on the same traffic contradict each other
p.yaml:5:28: scopes.c: egress: mark 9ms is not below drop 5ms
p.yaml:6:13: scopes.d.user: "root" is not a whole number
p.yaml:7:24: scopes.e: there is no scope "nowhere" to be its parent
p.yaml:9:24: unknown key "parnt" in scopes.g (did you mean "parent"?)`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestFilesThatCannotBePoliciesAreNamed(t *testing.T) {
	dir := t.TempDir()
	long := filepath.Join(dir, "long.yaml")
	if err := os.WriteFile(long, make([]byte, MaxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		filepath.Join(dir, "none.yaml"): "there is no file",
		dir:                             "is no regular file",
		long:                            "has 8388609 octets; 8388608 are allowed",
	} {
		if _, err := Load(file); fault.Of(err) != fault.Usage || !strings.Contains(err.Error(), want) || fault.Advice(err) == "" {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestScopesThatAreNeverReachedAreWarnedOf(t *testing.T) {
	got, err := Parse("p.yaml", []byte(`version: 1
scopes:
  outer: {cgroup: /a, egress: 10Mbit}
  inner: {cgroup: /a/b, egress: 20Mbit, ingress: 30Mbit}
  other: {cgroup: /ab, egress: 20Mbit}
  deep: {cgroup: /a/b/c/d, egress: 15Mbit, ingress: 1Mbit}
  all: {host: true, egress: 18Mbit}
  rack: {prefix: 10.0.0.0/8, egress: 18Mbit}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"p.yaml:4:33: scope inner: its egress of 20 Mbit/s is never reached, since scope outer around it, at p.yaml:3:31, has 10 Mbit/s: lower the one or raise the other",
		"p.yaml:5:32: scope other: its egress of 20 Mbit/s is never reached, since scope all around it, at p.yaml:7:29, has 18 Mbit/s: lower the one or raise the other",
		"p.yaml:6:36: scope deep: its egress of 15 Mbit/s is never reached, since scope outer around it, at p.yaml:3:31, has 10 Mbit/s: lower the one or raise the other",
	}
	if diff := cmp.Diff(want, got.Warnings); diff != "" {
		t.Errorf("warnings differ (-want +got):\n%s", diff)
	}
}

func TestRatesTooLowToShareAreWarnedOf(t *testing.T) {
	got, err := Parse("p.yaml", []byte(`version: 1
scopes:
  enough: {user: 1, egress: 120kbit, ingress: 119kbit}
  slow: {egress: 64kbit}
  heavy: {user: 2, parent: slow, egress: {weight: 3}}
  light: {user: 3, parent: work, egress: {rate: 100kbit}}
  work: {egress: 1Mbit}
`))
	if err != nil {
		t.Fatal(err)
	}
	const why = "too few for several flows to share it evenly or without delay: give 120 kbit/s or more"
	want := []string{
		"p.yaml:3:47: scope enough: its ingress of 119 kbit/s is one full-sized packet each 101ms, " + why,
		"p.yaml:4:18: scope slow: its egress of 64 kbit/s is one full-sized packet each 188ms, " + why,
		"p.yaml:6:43: scope light: its egress of 100 kbit/s is one full-sized packet each 120ms, " + why,
	}
	if diff := cmp.Diff(want, got.Warnings); diff != "" {
		t.Errorf("warnings differ (-want +got):\n%s", diff)
	}
}

// A policy with as many scopes as a data plane holds is read; the benchmark in bench/ says how fast.
func TestTenThousandScopesAreRead(t *testing.T) {
	var text strings.Builder
	text.WriteString("version: 1\nscopes:\n")
	for i := range 10_000 {
		selector := [...]string{"cgroup: /tenants/t%d", "prefix: 2001:db8:%x::/48", "user: %d"}[i%3]
		fmt.Fprintf(&text, "  # a tenant\n  s%d:\n    "+selector+"\n    egress: 10Mbit\n    ingress: {rate: 20Mbit, mark: 3ms, drop: 12ms}\n", i, i)
	}
	got, err := Parse("p.yaml", []byte(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	last := Scope{Name: "s9999", Applies: Selector{Kind: Cgroup, Text: "/tenants/t9999"}, Egress: &Rate{Rate: 10e6},
		Ingress: &Rate{Rate: 20e6, Mark: 3 * time.Millisecond, Drop: 12 * time.Millisecond}}
	if len(got.Scopes) != 10_000 || !got.Scopes[9999].Equal(last) || got.At("s9999", "egress") != "p.yaml:50001:13" {
		t.Errorf("%d scopes, the last %+v at %s", len(got.Scopes), got.Scopes[9999], got.At("s9999", "egress"))
	}
	wrong := strings.Replace(text.String(), "user: 5000", "usr: 5000", 1)
	if _, err := Parse("p.yaml", []byte(wrong)); err == nil || err.Error() != `p.yaml:25005:5: unknown key "usr" in scopes.s5000 (did you mean "user"?)` {
		t.Errorf("a mistake in the middle: %v", err)
	}
}

func TestLoopbackIsLimitedOnlyIfAskedFor(t *testing.T) {
	for text, want := range map[string]string{
		"interface: lo, egress: 1Mbit":                 "p.yaml:3:18: scope a limits nothing, since loopback traffic is exempt: add loopback: true",
		"interface: lo, egress: 1Mbit, loopback: true": "",
		"interface: eth0, egress: 1Mbit":               "",
	} {
		got, err := Parse("p.yaml", []byte("version: 1\nscopes:\n  a: {"+text+"}\n"))
		if err != nil {
			t.Fatal(err)
		}
		if warnings := strings.Join(got.Warnings, "\n"); warnings != want {
			t.Errorf("%s: warnings %q, want %q", text, warnings, want)
		}
	}
}

func TestDiffLeadsFromOnePolicyToAnother(t *testing.T) {
	one := func(name string, rate units.BitRate) Scope {
		return Scope{Name: name, Applies: Selector{Kind: Cgroup, Text: "/" + name}, Egress: &Rate{Rate: rate}}
	}
	steps := Diff([]Scope{one("gone", 1e6), one("same", 2e6), one("changed", 3e6)}, []Scope{one("new", 4e6), one("same", 2e6), one("changed", 5e6)})
	var got []string
	for _, s := range steps {
		got = append(got, string(s.Action)+" "+s.Scope.Name)
	}
	if diff := cmp.Diff([]string{"remove gone", "add new", "keep same", "change changed"}, got); diff != "" {
		t.Errorf("steps differ (-want +got):\n%s", diff)
	}
	if steps[3].Before == nil || steps[3].Before.Egress.Rate != 3_000_000 {
		t.Errorf("the change does not say what was before: %+v", steps[3])
	}
}

func TestPublishedSchemaIsCurrent(t *testing.T) {
	want, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../docs/schema/policy.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("docs/schema/policy.schema.json differs from the code: make generate\n%s", diff)
	}
}

// Whatever the text, Parse answers with a policy or with a usage error, and a policy it accepts names every scope once.
func FuzzParse(f *testing.F) {
	f.Add(example)
	f.Add("version: 1\nscopes: {a: {host: true, egress: {rate: 1Mbit, burst: 1ms}}}")
	f.Add("version: 1\nscopes: {a: {prefix: '::/0', ingress: 1Gbit}}")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse("f.yaml", []byte(text))
		if err != nil {
			if fault.Of(err) != fault.Usage {
				t.Errorf("status %d: %v", fault.Of(err), err)
			}
			return
		}
		names := map[string]bool{}
		for _, s := range p.Scopes {
			if names[s.Name] || s.Applies.Kind == "" || s.Egress == nil && s.Ingress == nil {
				t.Errorf("accepted %+v", s)
			}
			names[s.Name] = true
		}
	})
}
