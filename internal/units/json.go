// SPDX-License-Identifier: Apache-2.0

package units

import (
	"encoding/json"
	"fmt"
)

// JSON documents carry quantities as plain numbers in base units. Decoding accepts the text forms
// too.

func (r *BitRate) UnmarshalJSON(data []byte) error     { return unmarshal(data, (*uint64)(r), r) }
func (b *ByteSize) UnmarshalJSON(data []byte) error    { return unmarshal(data, (*uint64)(b), b) }
func (p *Probability) UnmarshalJSON(data []byte) error { return unmarshal(data, (*float64)(p), p) }

// unmarshal decodes a number or its text form.
func unmarshal[T uint64 | float64](data []byte, number *T, text interface{ UnmarshalText([]byte) error }) error {
	if len(data) == 0 || data[0] != '"' {
		return json.Unmarshal(data, number)
	}
	var written string
	if err := json.Unmarshal(data, &written); err != nil {
		return fmt.Errorf("read quantity: %w", err)
	}
	return text.UnmarshalText([]byte(written))
}
