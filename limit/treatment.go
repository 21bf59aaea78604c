package limit

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"weir/internal/units"
)

// Treatment is what a policy's scope may use. A nil direction is not limited; a scope with a parent has every direction that the
// parent has.
type Treatment struct {
	Egress   *Rate `json:"egress,omitempty"`
	Ingress  *Rate `json:"ingress,omitempty"`
	Loopback bool  `json:"loopback,omitempty"`
}

// Rate is what one direction may use. Zero thresholds are defaults that scale with the rate.
type Rate struct {
	Rate units.BitRate `json:"rate"` // bit/s
	// Min is kept for the scope by its parent, bit/s, no less than what the scope keeps for its own children. Weight is 1 or
	// more for a scope with a parent, 0 for others.
	Min    units.BitRate `json:"min,omitempty"`
	Weight int           `json:"weight,omitempty"`
	Burst  time.Duration `json:"burst,omitempty"`
	Mark   time.Duration `json:"mark,omitempty"`
	Drop   time.Duration `json:"drop,omitempty"`
}

// of is the rate of one direction, nil for none. A nil treatment has none.
func (t *Treatment) of(d Direction) *Rate {
	switch {
	case t == nil:
		return nil
	case d == Ingress:
		return t.Ingress
	}
	return t.Egress
}

// set gives one direction a rate.
func (t *Treatment) set(d Direction, r *Rate) {
	if d == Ingress {
		t.Ingress = r
	} else {
		t.Egress = r
	}
}

// limit is one direction as the data plane takes it.
func (t *Treatment) limit(d Direction, shadow bool) Limit {
	r := t.of(d)
	return Limit{Rate: r.Rate, Min: r.Min, Weight: r.Weight, Burst: r.Burst, Mark: r.Mark, Drop: r.Drop, Shadow: shadow, Loopback: t.Loopback}
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

// String prints the rate, the part in a parent and the thresholds that were given.
func (r Rate) String() string {
	text := r.Rate.String()
	for _, threshold := range []struct {
		name  string
		value any
	}{{"min", r.Min}, {"weight", r.Weight}, {"burst", r.Burst}, {"mark", r.Mark}, {"drop", r.Drop}} {
		if reflect.ValueOf(threshold.value).IsZero() {
			continue
		}
		text += fmt.Sprintf(" (%s %v)", threshold.name, threshold.value)
	}
	return text
}
