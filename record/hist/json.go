// SPDX-License-Identifier: Apache-2.0

package hist

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
)

// document is a histogram in JSON: only the non-empty buckets, as [index, count], in order.
type document struct {
	SubBits int         `json:"sub_bits"`
	Count   uint64      `json:"count"`
	Sum     uint64      `json:"sum"`
	Min     uint64      `json:"min"`
	Max     uint64      `json:"max"`
	Buckets [][2]uint64 `json:"buckets"`
}

// MarshalJSON writes
// {"sub_bits":5,"count":...,"sum":...,"min":...,"max":...,"buckets":[[index,count],...]}.
func (h *Histogram) MarshalJSON() ([]byte, error) {
	d := document{SubBits: SubBits, Count: h.Count(), Sum: h.Sum(), Min: h.Min(), Max: h.Max(), Buckets: [][2]uint64{}}
	for i, n := range h.All() {
		d.Buckets = append(d.Buckets, [2]uint64{uint64(i), n})
	}
	return json.Marshal(d)
}

// UnmarshalJSON parses the output of MarshalJSON and rejects impossible documents.
func (h *Histogram) UnmarshalJSON(text []byte) error {
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		return fmt.Errorf("read histogram: %w", err)
	}
	if d.SubBits != SubBits {
		return fmt.Errorf("read histogram: sub_bits is %d, this version reads %d", d.SubBits, SubBits)
	}
	read, err := FromBuckets(d.Buckets, d.Min, d.Max, d.Sum)
	if err != nil {
		return err
	}
	if read.count != d.Count {
		return fmt.Errorf("read histogram: buckets hold %d values, count says %d", read.count, d.Count)
	}
	*h = *read
	return nil
}

// FromBuckets makes a histogram from [index, count] pairs in order of index, and checks that they
// are consistent with the extremes and the sum.
func FromBuckets(pairs [][2]uint64, low, high, sum uint64) (*Histogram, error) {
	if len(pairs) == 0 {
		if low != 0 || high != 0 || sum != 0 {
			return nil, errors.New("read histogram: no values, but a minimum, maximum or sum")
		}
		return &Histogram{}, nil
	}
	h := &Histogram{sum: sum, min: low, max: high}
	next := uint64(0)
	for _, pair := range pairs {
		index, n := pair[0], pair[1]
		if index < next || index >= Buckets || n == 0 {
			return nil, fmt.Errorf("read histogram: bucket %d with count %d is out of order, out of range or empty", index, n)
		}
		next = index + 1
		total, carry := bits.Add64(h.count, n, 0)
		if carry != 0 {
			return nil, errors.New("read histogram: counts add up to more than 64 bits")
		}
		h.count = total
	}
	h.counts = make([]uint64, next)
	for _, pair := range pairs {
		h.counts[pair[0]] = pair[1]
	}
	return h, h.check(int(pairs[0][0]), int(next-1))
}

// check compares the extremes with the outermost non-empty buckets. The top bucket may be an open
// one.
func (h *Histogram) check(first, last int) error {
	minimum, maximum := Index(h.min), Index(h.max)
	fits := minimum == first || (first == last && minimum > first)
	if !fits || maximum < last || h.min > h.max {
		return fmt.Errorf("read histogram: minimum %d and maximum %d do not fit the buckets", h.min, h.max)
	}
	return nil
}
