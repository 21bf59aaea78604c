// Package policy is the file in which people declare how traffic is to be treated, and the difference between two of them.
//
// It is pure: what a selector stands for on this host is found out by internal/daemon.
package policy

import (
	"net/netip"
	"strconv"
	"time"

	"weir/internal/units"
	"weir/internal/yamlfile"
)

// Policy is a validated policy file. Scopes are in the file's order.
type Policy struct {
	Scopes   []Scope
	Warnings []string // what is allowed and probably not meant, each with its place and a way out
	written  map[string]written
}

// written is where the file speaks of a scope.
type written struct {
	name yamlfile.Place
	keys yamlfile.Fields
}

// At says where the file gives a key of a scope, or else the scope itself, as file:line:column.
func (p *Policy) At(scope, key string) string {
	w := p.written[scope]
	if w.keys.Has(key) {
		return w.keys.At(key).String()
	}
	return w.name.String()
}

// PutInShadow puts all scopes in shadow, if asked.
func (p *Policy) PutInShadow(shadow bool) {
	for i := range p.Scopes {
		p.Scopes[i].Shadow = p.Scopes[i].Shadow || shadow
	}
}

// Kind says what a scope's traffic is told by.
type Kind string

const (
	Cgroup    Kind = "cgroup"    // Selector.Text: path below the mount point
	Unit      Kind = "unit"      // Selector.Text: systemd unit
	User      Kind = "user"      // Selector.User
	Interface Kind = "interface" // Selector.Text: device
	Prefix    Kind = "prefix"    // Selector.Prefix
	Host      Kind = "host"
	Group     Kind = "group" // the traffic of its children
)

// Selector says which traffic a scope speaks of. It is comparable.
type Selector struct {
	Kind   Kind         `json:"kind"`
	Text   string       `json:"text,omitempty"`
	User   uint32       `json:"user,omitempty"`
	Prefix netip.Prefix `json:"prefix,omitzero"`
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

// Scope is some traffic and what it may use. A nil direction is not limited; a scope with a parent has every direction that
// the parent has. It is comparable by Equal.
type Scope struct {
	Name     string   `json:"name"`
	Applies  Selector `json:"applies"`
	Parent   string   `json:"parent,omitempty"` // name of a scope, "" for none
	Egress   *Rate    `json:"egress,omitempty"`
	Ingress  *Rate    `json:"ingress,omitempty"`
	Shadow   bool     `json:"shadow,omitempty"`
	Loopback bool     `json:"loopback,omitempty"`
}

// Equal says whether two scopes ask for the same.
func (s Scope) Equal(other Scope) bool {
	same := func(a, b *Rate) bool { return a == b || a != nil && b != nil && *a == *b }
	return s.Name == other.Name && s.Applies == other.Applies && s.Parent == other.Parent && same(s.Egress, other.Egress) && same(s.Ingress, other.Ingress) &&
		s.Shadow == other.Shadow && s.Loopback == other.Loopback
}

// String says what a selector stands for, in words.
func (s Selector) String() string {
	switch s.Kind {
	case User:
		return "user " + strconv.FormatUint(uint64(s.User), 10)
	case Prefix:
		return "remote prefix " + s.Prefix.String()
	case Host:
		return "the whole host"
	case Group:
		return "its children"
	}
	return string(s.Kind) + " " + s.Text
}
