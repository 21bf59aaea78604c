// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/core/policy"
	"weir/internal/fault"
)

func parse(t *testing.T, text string) *policy.Policy {
	t.Helper()
	p, err := language.Parse("p.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A selector that resolves to a file of this host is an error with its place in the policy.
func TestASelectorOfAFileIsAnErrorWithItsPlace(t *testing.T) {
	e := setup(t)
	p := parse(t, "version: 1\nscopes:\n  file: {cgroup: /cgroup.procs, egress: {rate: 1Mbit, mode: police}}\n")
	for name, do := range map[string]func(*policy.Policy) (Outcome, error){"plan": e.Plan, "apply": e.Apply} {
		_, err := e.Take(p, do)
		want := "p.yaml:3:18: scopes.file: cgroup: " + filepath.Join(e.CgroupRoot, "cgroup.procs") + " is a file, not a cgroup"
		if fault.Of(err) != fault.Usage || err.Error() != want || fault.Advice(err) == "" {
			t.Errorf("%s: %v, status %d, want the usage error %q", name, err, fault.Of(err), want)
		}
	}
}

// A plan warns of probable mistakes on this host: a unit that another scope matches as a cgroup,
// and misspelt names.
func TestWarningsOfThisHost(t *testing.T) {
	e := setup(t)
	for _, name := range []string{"backup.service", "tenant-1"} {
		if err := os.Mkdir(filepath.Join(e.CgroupRoot, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p := parse(t, `version: 1
scopes:
  path: {cgroup: /backup.service, egress: {rate: 1Mbit, mode: police}}
  unit: {unit: backup.service, egress: {rate: 2Mbit, mode: police}}
  typo: {unit: bakcup.service, egress: {rate: 2Mbit, mode: police}}
  below: {cgroup: /backup.servic/child, egress: {rate: 2Mbit, mode: police}}
  other: {cgroup: /tenant-2, egress: {rate: 2Mbit, mode: police}}
  device: {interface: llo, egress: {rate: 2Mbit, mode: police}}
`)
	result, err := e.Take(p, e.Plan)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"p.yaml:4:16: scope unit: unit backup.service matches the same traffic as scope path, at p.yaml:3:18; only the later one counts: keep one of the two",
		"p.yaml:8:23: scope device: egress polices local sockets that use llo; forwarded and bridged packets are not limited: add mode: shape to limit them",
		`p.yaml:5:16: scope typo: unit bakcup.service has no cgroup: it does not run (did you mean "backup.service"?); the scope waits until it exists`,
		"p.yaml:6:19: scope below: there is no cgroup " + e.CgroupRoot + `/backup.servic/child (did you mean "/backup.service/child"?); the scope waits until it exists`,
		`p.yaml:8:23: scope device: there is no interface llo (did you mean "lo"?); the scope waits until it exists`,
	}
	if diff := cmp.Diff(want, result.Warnings); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var waiting []string
	for _, w := range result.Waiting {
		waiting = append(waiting, w.Scope+" "+w.Place)
	}
	if diff := cmp.Diff([]string{"typo p.yaml:5:16", "below p.yaml:6:19", "other p.yaml:7:19", "device p.yaml:8:23"}, waiting); diff != "" {
		t.Errorf("waiting (-want +got):\n%s", diff)
	}
	var mechanisms []string
	for _, step := range result.Steps {
		mechanisms = append(mechanisms, step.Mechanism)
	}
	if !strings.HasPrefix(mechanisms[0], "cgroup_skb, TCP paced by sock_ops; by cgroup id ") || mechanisms[2] != "" {
		t.Errorf("mechanisms %q", mechanisms)
	}
}

func TestAPlanReportsARebind(t *testing.T) {
	e := setup(t)
	apply(t, e, limited("a", 1e6))
	if err := os.Mkdir(filepath.Join(e.CgroupRoot, "a"), 0o755); err != nil {
		t.Fatal(err)
	}
	plan, err := e.Plan(of(limited("a", 1e6)))
	if err != nil {
		t.Fatal(err)
	}
	if step := plan.Steps[0]; !plan.Changed || step.Action != policy.Rebind || !step.Rebound || step.Mechanism == "" {
		t.Errorf("%+v", plan)
	}
}

// All scopes of a tree have one mode, so the mechanism of a scope depends on its siblings.
func TestAPlanNamesTheMechanismOfTheTree(t *testing.T) {
	e := setup(t)
	p := parse(t, "version: 1\nscopes:\n  g: {egress: 9Mbit}\n  a: {parent: g, user: 7}\n  b: {parent: g, user: 8, egress: {mode: police}}\n")
	plan, err := e.Plan(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range plan.Steps {
		if strings.Contains(step.Mechanism, "shaped") {
			t.Errorf("%s: %s", step.Scope.Name, step.Mechanism)
		}
	}
}
