// SPDX-License-Identifier: Apache-2.0

// Package direction names the two directions of traffic, as the host sees them.
package direction

import "fmt"

// Direction is one of them.
type Direction uint32

const (
	Egress  Direction = 0 // what the host sends
	Ingress Direction = 1 // what it receives
)

// Both lists them in the order in which people are told of them.
var Both = [...]Direction{Egress, Ingress}

func (d Direction) String() string {
	if d == Ingress {
		return "ingress"
	}
	return "egress"
}

// MarshalText writes the name.
func (d Direction) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads the name.
func (d *Direction) UnmarshalText(text []byte) error {
	for _, one := range Both {
		if one.String() == string(text) {
			*d = one
			return nil
		}
	}
	return fmt.Errorf("%q is no direction", text)
}

// Opposite is the other one.
func (d Direction) Opposite() Direction { return 1 - d }
