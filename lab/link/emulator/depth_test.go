// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"slices"
	"testing"

	"weir/lab/link"
)

func TestDepthKeepsTheMostOfEachInterval(t *testing.T) {
	const each = int64(link.DepthInterval)
	d := newDepth(1000)
	for _, n := range []struct{ at, octets int64 }{{900, 9}, {1000, 5}, {1001, 7}, {1002, 6}, {1000 + 2*each, 3}, {1000 + each*depthBins, 1}} {
		d.note(n.at, n.octets)
	}
	if got := d.read(1000 + 3*each); !slices.Equal(got, []uint32{7, 0, 3}) {
		t.Errorf("%v", got)
	}
	if got := d.read(1000 + 3*each - 1); !slices.Equal(got, []uint32{7, 0}) {
		t.Errorf("an interval that is not over is there: %v", got)
	}
	d.begin(5000)
	if got := d.read(5000 + each); !slices.Equal(got, []uint32{0}) {
		t.Errorf("what was before is kept: %v", got)
	}
	if n := len(d.read(5000 + 2*each*depthBins)); n != depthBins {
		t.Errorf("%d intervals", n)
	}
}
