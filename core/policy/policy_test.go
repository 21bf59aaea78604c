// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/core/policy"
	"weir/core/selector"
	"weir/internal/fault"
	"weir/internal/units"
	"weir/modules"
)

// language returns the language of all modules of this build.
func language(t testing.TB) *policy.Language {
	t.Helper()
	all, err := modules.Language(modules.All())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// mistake is an invalid file and a part of its error.
type mistake struct{ name, text, want string }

// refused checks that each file is a usage error with advice.
func refused(t *testing.T, mistakes []mistake) {
	t.Helper()
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			_, err := language(t).Parse("p.yaml", []byte(m.text))
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
		{"another version", "version: 2\nscopes: {a: {host: true, egress: 1Mbit}}", "p.yaml:1:10: version 2 is unknown"},
		{"an empty name", "version: 1\nscopes:\n  \"\": {cgroup: /a, egress: 1Mbit}\n", "p.yaml:3:3: scopes: one has an empty name"},
		{"no selector", scope("egress: 1Mbit"), "has no selector"},
		{"two selectors", scope("cgroup: /a\n    user: 7\n    egress: 1Mbit"), "has 2 selectors"},
		{"no limit", scope("cgroup: /a"), "has no treatment: give egress"},
		{"a rate of zero", scope("cgroup: /a\n    egress: 0"), "egress: rate 0 bit/s is outside 64 kbit/s to 400 Gbit/s"},
		{"a rate in octets", scope("cgroup: /a\n    egress: 100MBps"), `p.yaml:5:13: scopes.a.egress: rate "100MBps" is in bytes`},
		{"a misspelt unit", scope("cgroup: /a\n    egress: 100Mbti"), `did you mean "100Mbit"?`},
		{"a rate without unit", scope("cgroup: /a\n    egress: 100"), "unknown unit"},
		{"not a prefix", scope("prefix: 10.0.0.0/40\n    egress: 1Mbit"), `p.yaml:4:13: scopes.a: "10.0.0.0/40" is not a prefix`},
		{"a prefix beside nothing", scope("prefix: hello\n    egress: 1Mbit"), `"hello" is not a prefix`},
		{"the root cgroup", scope("cgroup: /\n    egress: 1Mbit"), "host: true"},
		{"a path out of the hierarchy", scope("cgroup: ../..\n    egress: 1Mbit"), `"../.." contains ".."`},
		{"a path that leads up", scope("cgroup: /z/../w\n    egress: 1Mbit"), `p.yaml:4:13: scopes.a: "/z/../w" contains`},
		{"a budget beyond all tables", "version: 1\noffload: {from: [eth0], budget: 99999999999999}", "p.yaml:2:33: offload.budget: 99999999999999 is not a number of prefixes from 1 to 16777216"},
		{"no budget", "version: 1\noffload: {from: [eth0], budget: 0}", "offload.budget: 0 is not a number of prefixes"},
		{"a number that is a text", "version: \"1\"\nscopes: {a: {host: true, egress: 1Mbit}}", `p.yaml:1:10: version: "1" is a text`},
		{"a rate in bytes", scope("cgroup: /a\n    egress: 1.5Mbyte"), `rate "1.5Mbyte" is in bytes; rates are in bits: write 12Mbit`},
		{"a rate in megabytes", scope("cgroup: /a\n    egress: 10MB"), `rate "10MB" is in bytes; rates are in bits: write 80Mbit`},
		{"not a unit", scope("unit: backup\n    egress: 1Mbit"), `"backup" is not a systemd unit`},
		{"a user below zero", scope("user: -1\n    egress: 1Mbit"), "-1 is not a user id"},
		{"thresholds in the wrong order", scope("host: true\n    egress: {rate: 1Mbit, mark: 5ms, drop: 5ms}"), "mark 5ms is not below drop 5ms"},
		{"the same traffic twice", "version: 1\nscopes:\n  a: {user: 7, egress: 1Mbit}\n  b: {user: 7, egress: 2Mbit}\n",
			"p.yaml:4:3: scopes.b: user 7 has a scope already, a at p.yaml:3:3"},
		{"the same name twice", "version: 1\nscopes:\n  a: {user: 7, egress: 1Mbit}\n  a: {user: 8, egress: 2Mbit}\n", "p.yaml:4:3"},
		{"nothing", "", "p.yaml: the file is empty"},
		{"a version alone", "version: 1\n", `p.yaml:1:1: key "scopes" is missing`},
		{"a misspelt key that must be given", "version: 1\nscope: {a: {host: true, egress: 1Mbit}}\n", `p.yaml:2:1: unknown key "scope" (did you mean "scopes"?)`},
		{"a key that must be given without a value", "version: 1\nscopes:\n", "p.yaml:2:8: scopes: no value is given"},
		{"no YAML", "scopes: [", "p.yaml:1"},
	})
}

// If all scopes of a file are comments, the advice is "scopes: {}".
func TestScopesWithoutValue(t *testing.T) {
	_, err := language(t).Parse("p.yaml", []byte("version: 1\nscopes:\n  # a: {host: true}\n"))
	if advice := fault.Advice(err); !strings.Contains(advice, "scopes: {}") || err.Error() != "p.yaml:2:8: scopes: no value is given" {
		t.Errorf("%v; try %s", err, advice)
	}
}

// A section of the file treats the host, without scopes.
func TestASectionNeedsNoScopes(t *testing.T) {
	for _, text := range []string{"links: {eth0: {rate: 1Gbit}}", "offload: {from: [eth0]}", "ioam: {node: 1, namespaces: {123: {}}}"} {
		if _, err := language(t).Parse("p.yaml", []byte("version: 1\n"+text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Parse reports mistakes of different kinds at once, each once. A value that cannot be parsed
// causes no further mistake.
func TestAllMistakesOfAFileAreNamedAtOnce(t *testing.T) {
	_, err := language(t).Parse("p.yaml", []byte(`version: 1
scopes:
  a: {cgroup: /a, egres: 1Mbit}
  b: {cgroup: /b, egress: 1kbit}
  c: {cgroup: /b, egress: {rate: 1Mbit, mark: 9ms, drop: 5ms}}
  d: {user: root}
  e: {user: 7, parent: nowhere}
  f: {egress: 1Gbit}
  g: {unit: x.service, parnt: f}
  h: {cgroup: /../h, egress: 10MB, ingress: 7, congestion: A!}
`))
	const want = `p.yaml:3:19: unknown key "egres" in scopes.a (did you mean "egress"?)
p.yaml:4:27: scopes.b: egress: rate 1 kbit/s is outside 64 kbit/s to 400 Gbit/s
p.yaml:5:3: scopes.c: cgroup /b has a scope already, b at p.yaml:4:3: two scopes of the same traffic conflict
p.yaml:5:28: scopes.c: egress: mark 9ms is not below drop 5ms
p.yaml:6:13: scopes.d.user: root is a user name: write its id, 0 on this host
p.yaml:7:24: scopes.e: there is no scope "nowhere" to be its parent
p.yaml:9:24: unknown key "parnt" in scopes.g (did you mean "parent"?)
p.yaml:10:15: scopes.h: "/../h" contains "..": write the path from the mount point down
p.yaml:10:30: scopes.h.egress: rate "10MB" is in bytes; rates are in bits: write 80Mbit
p.yaml:10:45: scopes.h.ingress: rate "7" has an unknown unit: write bit, kbit, Mbit, Gbit or Tbit, as in "200Mbit"
p.yaml:10:60: scopes.h: "A!" is no congestion control: give one of dctcp, ledbat, scavenger, or one of the kernel's by its name, as cubic`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

// Two invalid selectors do not count as the same traffic.
func TestInvalidSelectorsDoNotConflict(t *testing.T) {
	for _, two := range [][2]string{{"prefix: 10.0.0.0/40", "prefix: hello"}, {"user: -1", "user: 4294967295"}, {"mark: 0", "mark: blue"},
		{"unit: a", "unit: b"}, {"netns: ../a", "netns: a/b"}, {"cgroup: /", "cgroup: .."}, {"interface: a b", "interface: c d"}} {
		_, err := language(t).Parse("p.yaml", []byte("version: 1\nscopes:\n  a: {"+two[0]+", egress: 1Mbit}\n  b: {"+two[1]+", egress: 2Mbit}\n"))
		if err == nil || strings.Count(err.Error(), "\n") != 1 || strings.Contains(err.Error(), "already") || strings.HasPrefix(fault.Advice(err), "keep one") {
			t.Errorf("%v: %v; try %s", two, err, fault.Advice(err))
		}
	}
}

func TestFilesThatCannotBePoliciesAreNamed(t *testing.T) {
	dir := t.TempDir()
	long := filepath.Join(dir, "long.yaml")
	if err := os.WriteFile(long, make([]byte, policy.MaxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		fifo: "it is a pipe", "/dev/zero": "it is a device",
		filepath.Join(dir, "none.yaml"): "no such file",
		dir:                             "is no regular file",
		long:                            "has 8388609 octets; 8388608 are allowed",
	} {
		if _, err := language(t).Load(file); fault.Of(err) != fault.Usage || !strings.Contains(err.Error(), want) || fault.Advice(err) == "" {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// toy is a treatment with a rate.
type toy units.BitRate

func (t toy) Summary() string { return units.BitRate(t).String() }

func TestDiffLeadsFromOnePolicyToAnother(t *testing.T) {
	one := func(name string, rate units.BitRate) policy.Scope {
		return policy.Scope{Name: name, Selector: policy.Selector{Kind: "cgroup", Text: "/" + name},
			Treatments: policy.Treatments{"toy": toy(rate)}}
	}
	steps := policy.Diff([]policy.Scope{one("gone", 1e6), one("same", 2e6), one("changed", 3e6)}, []policy.Scope{one("new", 4e6), one("same", 2e6), one("changed", 5e6)})
	var got []string
	for _, s := range steps {
		got = append(got, string(s.Action)+" "+s.Scope.Name)
	}
	if diff := cmp.Diff([]string{"remove gone", "add new", "keep same", "change changed"}, got); diff != "" {
		t.Errorf("steps differ (-want +got):\n%s", diff)
	}
	if steps[3].Before == nil || steps[3].Before.Summary() != "3 Mbit/s" {
		t.Errorf("the change lacks the former scope: %+v", steps[3])
	}
}

func TestPublishedSchemaIsCurrent(t *testing.T) {
	want, err := language(t).Schema()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../docs/schema/policy.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("docs/schema/policy.schema.json differs from the code: make generate\n%s", diff)
	}
}

// A key of a module that this build lacks is reported once, with the module.
func TestKeysOfAbsentModulesAreNamed(t *testing.T) {
	without, err := policy.NewLanguage(selector.Language(), nil, map[string]string{"dye": "paint"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = without.Parse("p.yaml", []byte("version: 1\nscopes:\n  a: {cgroup: /a, dye: red}\ndye: {node: 7}\n"))
	const want = "p.yaml:3:19: scopes.a.dye belongs to the module paint, which this build lacks\n" +
		"p.yaml:4:1: dye belongs to the module paint, which this build lacks"
	if err == nil || err.Error() != want || fault.Advice(err) == "" {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}
