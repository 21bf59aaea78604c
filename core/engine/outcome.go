// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"strings"

	"weir/core/match"
	"weir/core/module"
	"weir/core/policy"
	"weir/internal/fault"
)

// Outcome is the result of an apply or the forecast of a plan.
type Outcome struct {
	Format    string     `json:"format"`
	Steps     []Step     `json:"steps"`
	Host      []ItemStep `json:"host,omitempty"` // items of the host
	Changed   bool       `json:"changed"`
	Waiting   []Waiting  `json:"waiting,omitempty"`
	Recovered bool       `json:"recovered,omitempty"` // an interrupted apply was completed first
	Restored  bool       `json:"restored,omitempty"`  // the active state was incomplete on the host
	Rejected  []string   `json:"rejected,omitempty"`  // of a plan: reasons why an apply would be rejected
	Notes     []string   `json:"notes,omitempty"`     // for the user; no errors
	held      []held     // the active scopes, or the planned ones
}

// Step is the change of one scope, and its mechanism.
type Step struct {
	policy.Step
	Mechanism string `json:"mechanism,omitempty"` // "" for a waiting or removed scope
	Rebound   bool   `json:"rebound,omitempty"`   // its selector resolves to another object than before
}

// ItemStep is the change of one item of the host, and its mechanism.
type ItemStep struct {
	policy.ItemStep
	Mechanism string `json:"mechanism,omitempty"` // "" for a removed item
}

// Waiting is a scope without existing traffic.
type Waiting struct {
	Scope string `json:"scope"`
	For   string `json:"for"`
	Place string `json:"place,omitempty"` // in the policy file, file:line:column
}

const formatOutcome = "weir-apply/3"

func (e *Engine) outcome(have, next *state) (Outcome, error) {
	out := Outcome{Format: formatOutcome, Steps: []Step{}, Host: e.itemSteps(have.Host, next.Host), held: next.Scopes}
	if len(have.Scopes)+len(have.Host) > 0 {
		in, err := e.inPlace(have)
		if err != nil {
			return Outcome{}, err
		}
		outdated, err := e.outdated(have)
		if err != nil {
			return Outcome{}, err
		}
		out.Restored, out.Changed = !in, !in || outdated
	}
	before, after := have.byName(), next.byName()
	settled := e.settled(next)
	for _, step := range policy.Diff(have.scopes(), next.scopes()) {
		h := after[step.Scope.Name]
		was, there := before[step.Scope.Name]
		one := Step{Step: step, Mechanism: e.mechanism(h, settled), Rebound: there && step.Action != policy.Remove && was.Bound != h.Bound}
		if one.Rebound && one.Action == policy.Keep {
			one.Action = policy.Rebind
		}
		out.Changed = out.Changed || one.Action != policy.Keep
		if h.Owner == nil && was.Owner == nil { // owned scopes are not the policy's
			out.Steps = append(out.Steps, one)
		}
	}
	for _, step := range out.Host {
		out.Changed = out.Changed || step.Action != policy.Keep
	}
	for _, h := range next.Scopes {
		if h.Bound.Missing != "" {
			out.Waiting = append(out.Waiting, Waiting{Scope: h.Name, For: h.Bound.Missing})
		}
	}
	return out, nil
}

func (e *Engine) itemSteps(have, want []policy.Item) (all []ItemStep) {
	for _, step := range policy.DiffItems(have, want) {
		one := ItemStep{ItemStep: step}
		for _, r := range e.Modules {
			if r.Name() == step.Item.Module && step.Action != policy.Remove {
				one.Mechanism = r.Mechanism(module.Bound{Treatment: step.Item.Treatment})
			}
		}
		all = append(all, one)
	}
	return all
}

// settled returns the scopes of a state as each module would treat them, by module and scope.
func (e *Engine) settled(s *state) map[string]map[string]module.Bound {
	all := map[string]map[string]module.Bound{}
	qdiscOwners, _ := e.ownersOf(s)
	for _, r := range e.Modules {
		plane, can := e.Plane(r).(module.Settler)
		if part := qdiscOwners.of(s, r); can && !part.Empty() {
			if part, err := plane.Settle(part); err == nil { // Ready returns the same error
				all[r.Name()] = part.ByName()
			}
		}
	}
	return all
}

// mechanism describes how the modules treat a scope; "" for a waiting or removed one. settled has
// the scopes with their treatments on this host, by module.
func (e *Engine) mechanism(h held, settled map[string]map[string]module.Bound) string {
	if h.Bound.Missing != "" {
		return ""
	}
	var all []string
	for _, r := range e.Modules {
		if b, treated := h.of(r, deviceNames{}); treated {
			if one, there := settled[r.Name()][h.Name]; there {
				b = one
			}
			all = append(all, r.Mechanism(b))
		}
	}
	if len(all) == 0 {
		return ""
	}
	key := h.Bound.Key.String()
	switch n := len(h.Bound.Cgroups()); {
	case n > 1:
		key = fmt.Sprintf("%d cgroups", n)
	case h.Bound.Kind == match.User && h.Bound.More != "":
		key += " and its subordinate ids"
	}
	if h.Selector.Kind == policy.Group {
		key = "its member scopes"
	}
	return strings.Join(append(all, "by "+key), "; ")
}

// PolicyResult is the outcome of a plan or an apply, with warnings.
type PolicyResult struct {
	Outcome
	Warnings []string `json:"warnings,omitempty" doc:"Probable mistakes in the policy, each with its place and advice."`
}

// Take runs Plan or Apply on a policy and adds the warnings of the host. The warnings of the file
// are returned with an error too.
func (e *Engine) Take(p *policy.Policy, do func(*policy.Policy) (Outcome, error)) (PolicyResult, error) {
	result := PolicyResult{Warnings: p.Warnings}
	out, err := do(p)
	if err != nil {
		return result, placed(p, err)
	}
	selectors := map[string]policy.Selector{}
	for _, s := range p.Scopes {
		selectors[s.Name] = s.Selector
	}
	for i, w := range out.Waiting {
		out.Waiting[i].Place = p.At(w.Scope, selectors[w.Scope].Kind)
	}
	result.Outcome = out
	result.Warnings = append(result.Warnings, e.lint(p, out)...)
	return result, nil
}

// placed adds the places in the file to unsupported scopes.
func placed(p *policy.Policy, err error) error {
	places := unsupported(err)
	if len(places) == 0 {
		return err
	}
	lines := make([]string, len(places))
	for i, r := range places {
		lines[i] = r.Error()
		if p.Wrote(r.Scope) {
			lines[i] = fmt.Sprintf("%s: %v", p.At(r.Scope, r.Key), r)
		}
	}
	return fault.New(fault.Of(err), fault.Advice(err), "%s", strings.Join(lines, "\n"))
}
