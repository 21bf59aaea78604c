// SPDX-License-Identifier: Apache-2.0

package netem

import (
	"slices"
	"testing"
)

// Intervals keep the maximum reading; those without a reading keep the previous one.
func TestDepthsOfReadings(t *testing.T) {
	var bins []uint32
	for _, read := range []struct {
		at     int
		octets uint32
	}{{0, 5}, {0, 9}, {0, 2}, {1, 3}, {4, 1}, {5, 0}} {
		bins = noted(bins, read.at, read.octets)
	}
	if want := []uint32{9, 3, 3, 3, 1, 0}; !slices.Equal(bins, want) {
		t.Errorf("got %v, want %v", bins, want)
	}
	if late := noted(nil, 2, 7); !slices.Equal(late, []uint32{0, 0, 7}) {
		t.Errorf("before the first reading: %v", late)
	}
}
