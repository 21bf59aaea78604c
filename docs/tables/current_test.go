// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"weir/core/module"
	"weir/core/policy"
	"weir/modules"
)

// write is set by go generate.
var write = flag.Bool("write", false, "write the tables instead of comparing them")

func TestTablesAreCurrent(t *testing.T) {
	const folder = "../../docs/formats"
	have, want, err := pages(folder)
	if err != nil {
		t.Fatal(err)
	}
	for page, text := range want {
		switch {
		case have[page] == text:
		case *write:
			if err := os.WriteFile(filepath.Join(folder, page), []byte(text), 0o644); err != nil {
				t.Error(err)
			}
		default:
			t.Errorf("docs/formats/%s is out of date: run go generate ./docs/tables", page)
		}
	}
}

// Each cell of a generated table has a text. A missing description belongs into the list in the
// code.
func TestNoCellIsEmpty(t *testing.T) {
	all, err := tables()
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		if len(one.rows) == 0 {
			t.Errorf("%s of %s has no rows", one.name, one.page)
		}
		for _, row := range one.rows {
			if last := row[len(row)-1]; row[0] == "" || last == "" {
				t.Errorf("%s of %s: %q has an empty cell", one.name, one.page, row)
			}
		}
	}
}

// Each module with checks of weir prove describes them.
func TestModulesDescribeTheirChecks(t *testing.T) {
	language, err := modules.Language(modules.All())
	if err != nil {
		t.Fatal(err)
	}
	p, err := language.Parse("all", []byte("version: 1\nscopes: {a: {host: true, egress: 1Mbit, ingress: 1Mbit, class: lbe, congestion: reno}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range modules.All() {
		described := map[string]bool{}
		judge, judges := r.(module.Judge)
		if judges {
			for _, one := range judge.Judges() {
				described[one.Check] = true
			}
		}
		for _, check := range checksOf(r, p) {
			if !described[check.Name] {
				t.Errorf("%s does not describe its check %s", r.Name(), check.Name)
			}
		}
		if _, inspects := r.Plane(module.Host{}).(module.Inspector); inspects && !judges {
			t.Errorf("%s does not describe its inspection", r.Name())
		}
	}
}

func checksOf(r module.Module, p *policy.Policy) (all []module.Check) {
	prover, proves := r.(module.Prover)
	for _, s := range p.Scopes {
		if _, treats := s.Treatments[r.Name()]; proves && treats {
			all = append(all, prover.Checks(s)...)
		}
	}
	return all
}
