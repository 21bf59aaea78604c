package policy

import (
	"fmt"
	"strconv"
	"strings"
)

// Action is what becomes of a scope.
type Action string

const (
	Add    Action = "add"
	Change Action = "change"
	Remove Action = "remove"
	Keep   Action = "keep"
)

// Step is one scope's part in a plan.
type Step struct {
	Action Action `json:"action"`
	Scope  Scope  `json:"scope"`            // as it will be; for Remove as it was
	Before *Scope `json:"before,omitempty"` // for Change
}

// Diff returns what leads from one set of scopes to another: removals first, then the rest in the order of want.
func Diff(have, want []Scope) []Step {
	var steps []Step
	named := map[string]Scope{}
	for _, s := range want {
		named[s.Name] = s
	}
	before := map[string]Scope{}
	for _, s := range have {
		before[s.Name] = s
		if _, stays := named[s.Name]; !stays {
			steps = append(steps, Step{Action: Remove, Scope: s})
		}
	}
	for _, s := range want {
		old, there := before[s.Name]
		switch {
		case !there:
			steps = append(steps, Step{Action: Add, Scope: s})
		case old.Equal(s):
			steps = append(steps, Step{Action: Keep, Scope: s})
		default:
			steps = append(steps, Step{Action: Change, Scope: s, Before: &old})
		}
	}
	return steps
}

// Summary describes a scope's limits in one line.
func (s Scope) Summary() string {
	var parts []string
	for _, direction := range []struct {
		name string
		rate *Rate
	}{{"egress", s.Egress}, {"ingress", s.Ingress}} {
		if direction.rate != nil {
			parts = append(parts, direction.name+" "+direction.rate.String())
		}
	}
	if s.Parent != "" {
		parts = append(parts, "of "+s.Parent)
	}
	if s.Loopback {
		parts = append(parts, "loopback too")
	}
	if s.Shadow {
		parts = append(parts, "shadow")
	}
	return strings.Join(parts, ", ")
}

// number prints itself.
type number int

func (n number) String() string { return strconv.Itoa(int(n)) }

// String prints the rate, the part in a parent and the thresholds that were given.
func (r Rate) String() string {
	text := r.Rate.String()
	for _, threshold := range []struct {
		name  string
		value fmt.Stringer
		given bool
	}{{"min", r.Min, r.Min != 0}, {"weight", number(r.Weight), r.Weight != 0}, {"burst", r.Burst, r.Burst != 0}, {"mark", r.Mark, r.Mark != 0}, {"drop", r.Drop, r.Drop != 0}} {
		if threshold.given {
			text += fmt.Sprintf(" (%s %s)", threshold.name, threshold.value)
		}
	}
	return text
}
