// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/core/module"
	"weir/core/policy"
	"weir/internal/direction"
	"weir/modules/limit/police"
	"weir/modules/limit/shape"
)

/*
 * A direction without the key mode is shaped where this host can shape it by departure times in fq,
 * and policed otherwise. All scopes of a tree have one mode per direction, so one scope that cannot
 * be shaped makes its tree policed:
 *
 *	mode in the policy   shape      police     none
 *	this host can        shaped     policed    shaped
 *	it cannot            an error   policed    policed, with the reason in plan, apply and status
 *
 * The HTB class of a kernel without fq is no default: in its one queue a QUIC flow starves TCP.
 */

// tree is a direction of a root scope and of the scopes below it.
type tree struct {
	root string
	of   Direction
}

// treeOf returns the tree of a direction of a scope.
func treeOf(b module.Bound, d Direction, named map[string]module.Bound) tree {
	for {
		above, there := named[b.Parent]
		if !there {
			return tree{b.Name, d}
		}
		b = above
	}
}

// fallback is a direction that is policed for an obstacle.
type fallback struct {
	scope     string
	direction Direction
	obstacle
}

// byDefault reports whether the policy leaves the mode of a direction to the host. Shadow scopes
// count and have no mode.
func byDefault(s policy.Scope, d Direction) bool {
	l := treatmentOf(s).of(d)
	return l != nil && l.Mode == "" && !s.Shadow
}

// withMode returns a scope with a mode for one direction.
func withMode(s policy.Scope, d Direction, mode string) policy.Scope {
	t := *treatmentOf(s)
	l := *t.of(d)
	l.Mode = mode
	t.set(d, &l)
	s.Treatments = maps.Clone(s.Treatments)
	s.Treatments[moduleName] = &t
	return s
}

// changeModes returns a state with new modes: of returns that of one direction of a scope, "" to
// keep it.
func changeModes(s module.State, of func(module.Bound, Direction) string) module.State {
	s.Scopes = slices.Clone(s.Scopes)
	for i, b := range s.Scopes {
		for _, d := range direction.Both {
			if treatmentOf(b.Scope).of(d) == nil {
				continue
			}
			if mode := of(b, d); mode != "" {
				b.Scope = withMode(b.Scope, d, mode)
				b.Treatment = b.Treatments[moduleName]
			}
		}
		s.Scopes[i] = b
	}
	return s
}

// chooseModes returns the state with a mode for each direction, and the directions that are policed
// for an obstacle.
func chooseModes(h shape.Host, s module.State) (module.State, []fallback, error) {
	return chooseModesBy(h, s, facts{h.CheckScopes, here()})
}

// facts are the properties of a host's devices on which a choice of modes depends.
type facts struct {
	checkScopes func(shape.Hosting) error // [shape.Host.CheckScopes]
	surrounding func() surroundings
}

// chooseModesBy is chooseModes with given facts.
func chooseModesBy(h shape.Host, s module.State, f facts) (module.State, []fallback, error) {
	if !slices.ContainsFunc(s.Scopes, func(b module.Bound) bool { return byDefault(b.Scope, Egress) || byDefault(b.Scope, Ingress) }) {
		return s, nil, nil
	}
	c := &modeSelection{host: h, state: s, named: s.ByName(), found: map[tree]obstacle{}, facts: f}
	c.each(func(b module.Bound, d Direction, mode string) obstacle {
		if mode == police.ModePolice {
			return obstacle{why: "scope " + b.Name + " of the same tree has mode: police"}
		}
		return obstacle{}
	})
	failed := failedShaping(h)
	c.each(func(b module.Bound, d Direction, mode string) obstacle {
		if mode == "" && failed.why != "" {
			return failed
		}
		if mode == "" {
			return c.obstacle(b, d)
		}
		return obstacle{}
	})
	c.checkTogether()
	var fallbacks []fallback
	for _, b := range s.Scopes {
		for _, d := range direction.Both {
			if o, found := c.found[treeOf(b, d, c.named)]; found && byDefault(b.Scope, d) {
				fallbacks = append(fallbacks, fallback{b.Name, d, o})
			}
		}
	}
	return c.chosen(), fallbacks, c.failed
}

// modeSelection chooses the mode of each tree of a state: shape, unless there is an obstacle.
type modeSelection struct {
	host     shape.Host
	state    module.State
	named    map[string]module.Bound
	found    map[tree]obstacle
	failed   error     // the host could not be looked at
	everyone *obstacle // of scopes that are shaped at all egress devices; nil before the first one

	facts
}

// each looks for an obstacle to each tree without one.
func (c *modeSelection) each(find func(b module.Bound, d Direction, mode string) obstacle) {
	for _, b := range c.state.Scopes {
		for _, d := range direction.Both {
			l, at := treatmentOf(b.Scope).of(d), treeOf(b, d, c.named)
			if _, found := c.found[at]; l == nil || b.Shadow || found {
				continue
			}
			if o := find(b, d, l.Mode); o.why != "" {
				c.found[at] = o
			}
		}
	}
}

// chosen returns the state with the modes found so far.
func (c *modeSelection) chosen() module.State {
	return changeModes(c.state, func(b module.Bound, d Direction) string {
		if !byDefault(b.Scope, d) {
			return ""
		}
		if _, found := c.found[treeOf(b, d, c.named)]; found {
			return police.ModePolice
		}
		return police.ModeShape
	})
}

// checkTogether finds obstacles to the whole state: too many shapers, and a device with two limits.
func (c *modeSelection) checkTogether() {
	w := shapedState(c.chosen())
	if len(w.Shapers) > shape.MaxShapers {
		c.policeAll(obstacle{why: fmt.Sprintf("a host has %d shapers at most", shape.MaxShapers)}, func(module.Bound) bool { return true })
		return
	}
	if err := c.host.CheckEnds(w); err != nil {
		c.policeAll(c.obstacleOf(err), func(b module.Bound) bool { return b.Selector.Kind == kindNetns })
	}
}

// policeAll finds an obstacle to the trees of scopes without a mode.
func (c *modeSelection) policeAll(o obstacle, of func(module.Bound) bool) {
	c.each(func(b module.Bound, _ Direction, mode string) obstacle {
		if mode == "" && of(b) {
			return o
		}
		return obstacle{}
	})
}

// fallbackNotes describes fallbacks for plan and apply, one note per obstacle.
func fallbackNotes(all []fallback) (notes []string) {
	const named = 8
	var order []obstacle
	places := map[obstacle][]string{}
	for _, f := range all {
		if f.silent {
			continue
		}
		if places[f.obstacle] == nil {
			order = append(order, f.obstacle)
		}
		places[f.obstacle] = append(places[f.obstacle], fmt.Sprintf("%s %s", f.scope, f.direction))
	}
	for _, o := range order {
		at := places[o]
		text := strings.Join(at[:min(named, len(at))], ", ")
		if more := len(at) - named; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		text += " policed instead of shaped: " + o.why + ". QUIC and short connections use about two thirds of a policed rate"
		if o.remedy != "" {
			text += "; " + o.remedy
		}
		notes = append(notes, text)
	}
	return notes
}

// settle returns the state with the mode of each direction on this host: chosen for directions
// without one, and policed where shaping would bypass filters of others.
func (p *plane) settle(s module.State) (module.State, []fallback, []filtered, error) {
	return settle(p.shape, s)
}

func settle(h shape.Host, s module.State) (module.State, []fallback, []filtered, error) {
	s, fallbacks, err := chooseModes(h, s)
	if err != nil {
		return s, nil, nil, fmt.Errorf("choose between mode: shape and mode: police: %w", err)
	}
	s, avoided, err := avoidFilters(h, s)
	return s, fallbacks, avoided, err
}
