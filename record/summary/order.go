// SPDX-License-Identifier: Apache-2.0

package summary

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"weir/internal/units"
	"weir/record"
)

// Compare orders the values of a label naturally: quantities by their size ("1%" < "2%" < "10%",
// "500us" < "20ms", "100 Mbit" < "1 Gbit"), then all others with the numbers in them compared as
// numbers ("host2" < "host10").
func Compare(a, b string) int {
	x, isX := quantity(a)
	y, isY := quantity(b)
	switch {
	case isX && isY && x != y:
		return cmp.Compare(x, y)
	case isX && !isY:
		return -1
	case isY && !isX:
		return 1
	}
	if order := natural(a, b); order != 0 {
		return order
	}
	return cmp.Compare(a, b)
}

// quantity parses a plain number, share, duration, rate or size to a number of its base unit.
func quantity(s string) (float64, bool) {
	s = strings.TrimSpace(s)
	if s == "" || !strings.ContainsRune("+-.0123456789", rune(s[0])) {
		return 0, false
	}
	if v, err := strconv.ParseFloat(s, 64); err == nil && v == v {
		return v, true
	}
	if v, err := units.ParseProbability(s); err == nil {
		return float64(v), true
	}
	if v, err := units.ParseDuration(s); err == nil {
		return v.Seconds(), true
	}
	if v, err := units.ParseBitRate(s); err == nil {
		return float64(v), true
	}
	if v, err := units.ParseByteSize(s); err == nil {
		return float64(v), true
	}
	return 0, false
}

// natural compares texts piece by piece, runs of digits (with a decimal point) as numbers.
func natural(a, b string) int {
	for a != "" && b != "" {
		x, restA, numericX := piece(a)
		y, restB, numericY := piece(b)
		order := cmp.Compare(x, y)
		if numericX && numericY {
			m, _ := strconv.ParseFloat(x, 64)
			n, _ := strconv.ParseFloat(y, 64)
			order = cmp.Compare(m, n)
		}
		if order != 0 {
			return order
		}
		a, b = restA, restB
	}
	return cmp.Compare(len(a), len(b))
}

// piece cuts the leading number or the leading text without digits off s, which is not empty.
func piece(s string) (head, rest string, numeric bool) {
	digit := func(i int) bool { return i < len(s) && s[i] >= '0' && s[i] <= '9' }
	numeric = digit(0)
	end, point := 0, false
	for end < len(s) {
		if numeric && !point && s[end] == '.' && digit(end+1) {
			point = true
		} else if digit(end) != numeric {
			break
		}
		end++
	}
	return s[:end], s[end:], numeric
}

// CompareLabels orders sets of labels by their keys in alphabetical order, each by its value; a
// missing key comes first.
func CompareLabels(a, b record.Labels) int {
	keys := slices.Collect(maps.Keys(a))
	for key := range b {
		if _, both := a[key]; !both {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		x, inA := a[key]
		y, inB := b[key]
		switch {
		case !inA:
			return -1
		case !inB:
			return 1
		}
		if order := Compare(x, y); order != 0 {
			return order
		}
	}
	return 0
}

// Text writes labels as "cc=cubic loss=1%", keys in alphabetical order.
func Text(labels record.Labels) string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(key)
		b.WriteByte('=')
		b.WriteString(labels[key])
	}
	return b.String()
}
