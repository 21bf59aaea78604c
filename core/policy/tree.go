// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"strings"

	"weir/internal/nearest"
	"weir/internal/yamlfile"
)

// tree holds the parents of the scopes of a file, by index.
type tree struct {
	scopes  []rawScope
	number  map[string]int
	parents map[string]bool // names used as parent
	cut     map[int]bool    // scopes with their parent removed, which breaks cycles
	depth   []int           // number of ancestors; set by check
}

func newTree(scopes []rawScope) *tree {
	t := &tree{scopes: scopes, number: map[string]int{}, parents: map[string]bool{}, cut: map[int]bool{}}
	for i, s := range scopes {
		t.number[s.name.Value] = i
		if s.own.Parent != "" {
			t.parents[s.own.Parent] = true
		}
	}
	return t
}

// parent returns the index of the parent of a scope, or -1 without an existing one.
func (t *tree) parent(i int) int {
	if above, known := t.number[t.scopes[i].own.Parent]; known && !t.cut[i] {
		return above
	}
	return -1
}

func (t *tree) complain(problems *yamlfile.Problems, i int, key, format string, args ...any) {
	problems.Add(t.scopes[i].fields.At(key), "", "scopes.%s: %s", t.scopes[i].name.Value, fmt.Sprintf(format, args...))
}

// check reports missing parents and cycles, and computes depths. It stops climbing at visited
// scopes, so its time is linear in the file.
func (t *tree) check(problems *yamlfile.Problems) {
	const unseen, climbing = -1, -2
	t.depth = slices.Repeat([]int{unseen}, len(t.scopes))
	for i, s := range t.scopes {
		if name := s.own.Parent; name != "" && t.parent(i) < 0 {
			t.complain(problems, i, "parent", "there is no scope %q to be its parent%s", name, nearest.Hint(name, t.names(problems)))
		}
		var path []int
		at := i
		for ; at >= 0 && t.depth[at] == unseen; at = t.parent(at) {
			t.depth[at] = climbing
			path = append(path, at)
		}
		if at >= 0 && t.depth[at] == climbing {
			t.complain(problems, at, "parent", "it is its own ancestor: %s: remove one of these parents", t.cycle(at))
			t.cut[at] = true
		}
		above := 0
		if at >= 0 && t.depth[at] >= 0 {
			above = t.depth[at] + 1
		}
		for _, at := range slices.Backward(path) {
			t.depth[at] = above
			above++
		}
	}
}

// names lists the possible parents, or nothing for a file full of mistakes, to bound the
// comparisons.
func (t *tree) names(problems *yamlfile.Problems) (all []string) {
	if problems.Len() > 20 {
		return nil
	}
	for _, s := range t.scopes {
		all = append(all, s.name.Value)
	}
	return all
}

// cycle describes the path from a scope back to itself.
func (t *tree) cycle(from int) string {
	names := []string{t.scopes[from].name.Value}
	for at := t.parent(from); at != from; at = t.parent(at) {
		names = append(names, t.scopes[at].name.Value)
	}
	return strings.Join(append(names, names[0]), " → ")
}
