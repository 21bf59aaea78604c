// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// arrows draws the tree: each top folder with the folders that its programs import or include. A
// folder is above all folders that it uses. Tests are not drawn.
var arrows = []struct {
	from string
	to   []string
}{
	{"cmd", []string{"core", "internal", "ix", "kernel", "lab", "measure", "modules", "record", "tester"}},
	{"lab", []string{"bpf", "internal", "kernel", "modules", "record", "tester"}},
	{"tester", []string{"bpf", "internal", "kernel", "netconf", "record"}},
	{"modules", []string{"bpf", "core", "internal", "kernel", "record"}},
	{"core", []string{"bpf", "internal", "kernel", "record"}},
	{"measure", []string{"internal", "kernel"}},
	{"record", []string{"internal"}},
	{"kernel", []string{"internal"}},
	{"netconf", []string{"internal"}},
	{"ix", []string{"internal"}},
}

const (
	maxArrows = 37
	maxPage   = 80 // lines of a README
)

// include matches a header of the tree, which a C file names with a relative path.
var include = regexp.MustCompile(`(?m)^#include "(\.\.?/[^"]+)"`)

// used returns each top folder with the folders that its programs import or include.
func used(t *testing.T) map[string]map[string]bool {
	t.Helper()
	all := map[string]map[string]bool{}
	add := func(from, to string) {
		from, _, _ = strings.Cut(from, "/")
		to, _, _ = strings.Cut(to, "/")
		if all[from] == nil {
			all[from] = map[string]bool{}
		}
		if from != to {
			all[from][to] = true
		}
	}
	for _, p := range packages(t) {
		for _, path := range p.Imports {
			if to, ours := strings.CutPrefix(path, "weir/"); ours {
				add(strings.TrimPrefix(p.ImportPath, "weir/"), to)
			}
		}
	}
	for _, name := range tracked(t, ".c", ".h") {
		for _, header := range include.FindAllStringSubmatch(strings.Join(lines(t, name), "\n"), -1) {
			add(name, filepath.Join(filepath.Dir(name), header[1]))
		}
	}
	return all
}

func TestTheTreeIsAsDrawn(t *testing.T) {
	all, count, above := used(t), 0, map[string]bool{}
	for _, folder := range arrows {
		above[folder.from] = true
		count += len(folder.to)
		for _, to := range folder.to {
			if above[to] {
				t.Errorf("%s uses %s, which is above it", folder.from, to)
			}
		}
		if got := slices.Sorted(maps.Keys(all[folder.from])); !slices.Equal(got, folder.to) {
			t.Errorf("%s uses %v, drawn are %v", folder.from, got, folder.to)
		}
		delete(all, folder.from)
	}
	for from, to := range all {
		if len(to) > 0 {
			t.Errorf("%s uses %v and is not drawn", from, slices.Sorted(maps.Keys(to)))
		}
	}
	if count > maxArrows {
		t.Errorf("%d arrows between top folders, at most %d are allowed", count, maxArrows)
	}
}

// The drawing of ARCHITECTURE.md names each top folder, and no other, and each has a README.
func TestArchitectureDrawsEveryFolder(t *testing.T) {
	drawn, _, _ := strings.Cut(strings.Join(lines(t, "ARCHITECTURE.md"), "\n"), "\n## ")
	names := regexp.MustCompile(`(?m)^([a-z0-9]+/ )*[a-z0-9]+/`)
	have := map[string]bool{}
	for _, line := range names.FindAllString(drawn, -1) {
		for _, name := range strings.Fields(line) {
			have[strings.TrimSuffix(name, "/")] = true
		}
	}
	want := map[string]bool{}
	for _, name := range tracked(t, "") {
		if top, _, nested := strings.Cut(name, "/"); nested && top[0] != '.' && top != "LICENSES" {
			want[top] = true
		}
	}
	if !maps.Equal(have, want) {
		t.Errorf("ARCHITECTURE.md draws %v, the tree has %v", slices.Sorted(maps.Keys(have)), slices.Sorted(maps.Keys(want)))
	}
	for top := range want {
		if n := len(lines(t, filepath.Join(top, "README.md"))); n > maxPage {
			t.Errorf("%s/README.md has %d lines, more than a page of %d: move details to the README of a folder below", top, n, maxPage)
		}
	}
}
