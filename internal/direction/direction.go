// SPDX-License-Identifier: Apache-2.0

// Package direction names the two directions of traffic from the host's point of view.
package direction

import "fmt"

// Direction is egress or ingress.
type Direction uint32

const (
	Egress  Direction = 0 // sent by the host
	Ingress Direction = 1 // received by the host
)

// Both lists the directions in display order.
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

// Opposite returns the other direction.
func (d Direction) Opposite() Direction { return 1 - d }
