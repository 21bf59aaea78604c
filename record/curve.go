// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/json"
	"math"
)

// number is a float64 in JSON: null stands for a value that is not finite, and reads back as NaN.
type number float64

func (n number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

func (n *number) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*n = number(math.NaN())
		return nil
	}
	return json.Unmarshal(text, (*float64)(n))
}

// curveDocument is a Curve in JSON.
type curveDocument struct {
	Name      string   `json:"name"`
	X         []number `json:"x"`
	Y         []number `json:"y"`
	Low       []number `json:"low,omitempty"`
	High      []number `json:"high,omitempty"`
	Reference bool     `json:"reference,omitempty"`
}

// MarshalJSON writes values that are not finite, which are gaps, as null.
func (c Curve) MarshalJSON() ([]byte, error) {
	return json.Marshal(curveDocument{Name: c.Name, X: convert[number](c.X), Y: convert[number](c.Y),
		Low: convert[number](c.Low), High: convert[number](c.High), Reference: c.Reference})
}

// UnmarshalJSON reads null as NaN.
func (c *Curve) UnmarshalJSON(text []byte) error {
	var d curveDocument
	if err := json.Unmarshal(text, &d); err != nil {
		return err
	}
	*c = Curve{Name: d.Name, X: convert[float64](d.X), Y: convert[float64](d.Y), Low: convert[float64](d.Low),
		High: convert[float64](d.High), Reference: d.Reference}
	return nil
}

func convert[To, From ~float64](values []From) []To {
	if values == nil {
		return nil
	}
	converted := make([]To, len(values))
	for i, v := range values {
		converted[i] = To(v)
	}
	return converted
}
