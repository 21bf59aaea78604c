package policy

import (
	"fmt"
	"slices"
	"strings"

	"weir/internal/nearest"
	"weir/internal/units"
	"weir/internal/yamlfile"
)

// tree is the parents of a file's scopes, by their places in it.
type tree struct {
	scopes  yamlfile.Map[scopeFile]
	number  map[string]int
	parents map[string]bool // names that scopes give as their parent
	depth   []int           // scopes above; set by check
}

func newTree(scopes yamlfile.Map[scopeFile]) *tree {
	t := &tree{scopes: scopes, number: map[string]int{}, parents: map[string]bool{}}
	for i, entry := range scopes {
		t.number[entry.Key.Value] = i
		if entry.Value.Parent != "" {
			t.parents[entry.Value.Parent] = true
		}
	}
	return t
}

// parent is the place of a scope's parent, -1 without one or with one that does not exist.
func (t *tree) parent(i int) int {
	if above, known := t.number[t.scopes[i].Value.Parent]; known {
		return above
	}
	return -1
}

func (t *tree) complain(problems *yamlfile.Problems, i int, key, format string, args ...any) {
	problems.Add(t.scopes[i].Value.At(key), "", "scopes.%s: %s", t.scopes[i].Key.Value, fmt.Sprintf(format, args...))
}

// check finds parents that do not exist, scopes that are above themselves, and trees that are too deep. It climbs from every
// scope to the first that was seen to, so that its time grows with the file alone.
func (t *tree) check(problems *yamlfile.Problems) {
	const unseen, climbing = -1, -2
	t.depth = slices.Repeat([]int{unseen}, len(t.scopes))
	for i, entry := range t.scopes {
		if name := entry.Value.Parent; name != "" && t.parent(i) < 0 {
			t.complain(problems, i, "parent", "there is no scope %q to be its parent%s", name, nearest.Hint(name, t.names(problems)))
		}
		var path []int
		at := i
		for ; at >= 0 && t.depth[at] == unseen; at = t.parent(at) {
			t.depth[at] = climbing
			path = append(path, at)
		}
		if at >= 0 && t.depth[at] == climbing {
			t.complain(problems, at, "parent", "it is its own parent, by way of %s: leave one of these parents out", t.cycle(at))
		}
		above := 0
		if at >= 0 && t.depth[at] >= 0 {
			above = t.depth[at] + 1
		}
		for _, at := range slices.Backward(path) {
			if t.depth[at] = above; above == maxDepth {
				t.complain(problems, at, "parent", "it has %d scopes above it, and a packet is charged to %d scopes at most: leave a level out", above, maxDepth)
			}
			above++
		}
	}
}

// names lists what a parent can be called; nobody compares a word with them again and again in a file full of mistakes.
func (t *tree) names(problems *yamlfile.Problems) (all []string) {
	if problems.Len() > 20 {
		return nil
	}
	for _, entry := range t.scopes {
		all = append(all, entry.Key.Value)
	}
	return all
}

// cycle names the scopes on the way from one back to itself.
func (t *tree) cycle(from int) string {
	names := []string{t.scopes[from].Key.Value}
	for at := t.parent(from); at != from; at = t.parent(at) {
		names = append(names, t.scopes[at].Key.Value)
	}
	return strings.Join(append(names, names[0]), " → ")
}

// share completes what children have from their parents, and checks that it can be kept. It goes down for rates, so that a
// parent's is known before its children's, and up for minima: a scope is kept at least what it keeps for its children.
func (t *tree) share(scopes []Scope, problems *yamlfile.Problems) {
	down := make([]int, len(scopes))
	for i := range down {
		down[i] = i
	}
	slices.SortStableFunc(down, func(a, b int) int { return t.depth[a] - t.depth[b] })
	kept := make([][2]units.BitRate, len(scopes)) // for the children of a scope, by direction
	for _, i := range down {
		if above := t.parent(i); above >= 0 {
			t.inherit(&scopes[i], &scopes[above], i, problems)
		}
	}
	for _, i := range slices.Backward(down) {
		for d, direction := range directions {
			rate := direction.rate(scopes[i])
			if rate == nil {
				continue
			}
			if kept[i][d] > rate.Rate {
				t.complain(problems, i, direction.name, "%s: its children have minima of %s together, more than its rate of %s: lower one of them or raise the rate",
					direction.name, kept[i][d], rate.Rate)
			}
			if above := t.parent(i); above >= 0 {
				rate.Min = max(rate.Min, kept[i][d])
				kept[above][d] += rate.Min
			}
		}
	}
}

// inherit completes and checks one scope against its parent.
func (t *tree) inherit(s, parent *Scope, i int, problems *yamlfile.Problems) {
	for d, own := range []**Rate{&s.Egress, &s.Ingress} {
		name, above := directions[d].name, directions[d].rate(*parent)
		complain := func(format string, args ...any) {
			t.complain(problems, i, name, "%s: %s", name, fmt.Sprintf(format, args...))
		}
		switch rate := *own; {
		case above == nil && rate == nil:
		case above == nil && (rate.Min > 0 || rate.Weight > 0):
			complain("it has a part in %s, which does not limit this direction: give that a rate for it", s.Parent)
		case above == nil && rate.Rate == 0:
			complain("no rate is given, and %s has none for this direction: give one of them", s.Parent)
		case above == nil:
		case rate == nil:
			*own = &Rate{Rate: above.Rate, Weight: 1}
		default:
			if rate.Rate == 0 {
				rate.Rate = above.Rate
			}
			rate.Weight = max(rate.Weight, 1)
			if least := min(rate.Rate, above.Rate); rate.Min > least {
				complain("min %s is above %s, the most that it and %s may use: lower it", rate.Min, least, s.Parent)
			}
		}
	}
}

// warnings are of children whose rate is above their parent's.
func (t *tree) warnings(p *Policy) (all []string) {
	for i, s := range p.Scopes {
		above := t.parent(i)
		if above < 0 {
			continue
		}
		for _, of := range directions {
			if rate, most := of.rate(s), of.rate(p.Scopes[above]); rate != nil && most != nil && rate.Rate > most.Rate {
				all = append(all, fmt.Sprintf("%s: scope %s: its %s of %s is never reached, since its parent %s, at %s, has %s: leave the rate out, or raise the parent's",
					p.At(s.Name, of.name), s.Name, of.name, rate.Rate, s.Parent, p.At(s.Parent, of.name), most.Rate))
			}
		}
	}
	return all
}
