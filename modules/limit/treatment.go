// SPDX-License-Identifier: Apache-2.0

package limit

import "strings"

// Treatment is what a policy's scope may use. A nil direction is not limited; a scope with a parent
// has every direction that the parent has.
type Treatment struct {
	Egress   *Limit `json:"egress,omitempty"`
	Ingress  *Limit `json:"ingress,omitempty"`
	Loopback bool   `json:"loopback,omitempty"`
}

// of is the limit of one direction, nil for none. A nil treatment has none.
func (t *Treatment) of(d Direction) *Limit {
	switch {
	case t == nil:
		return nil
	case d == Ingress:
		return t.Ingress
	}
	return t.Egress
}

// set gives one direction a limit.
func (t *Treatment) set(d Direction, r *Limit) {
	if d == Ingress {
		t.Ingress = r
	} else {
		t.Egress = r
	}
}

// limit is one direction as the data plane takes it.
func (t *Treatment) limit(d Direction, shadow bool) Limit {
	l := *t.of(d)
	l.Shadow, l.Loopback = shadow, t.Loopback
	return l
}

// Summary describes the limits in one line.
func (t *Treatment) Summary() string {
	var parts []string
	for _, d := range Directions {
		if rate := t.of(d); rate != nil {
			parts = append(parts, d.String()+" "+rate.String())
		}
	}
	if t.Loopback {
		parts = append(parts, "loopback too")
	}
	return strings.Join(parts, ", ")
}
