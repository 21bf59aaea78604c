// SPDX-License-Identifier: Apache-2.0

package plot

import (
	"testing"

	"weir/record"
)

// A curve has its colour in any order of the figure's curves.
func TestColoursFollowNames(t *testing.T) {
	one := styles([]record.Curve{{Name: "bbr"}, {Name: "cubic"}, {Name: "a model", Reference: true}})
	two := styles([]record.Curve{{Name: "cubic"}, {Name: "bbr"}})
	if one[0].color != two[1].color || one[1].color != two[0].color || one[0].color == one[1].color {
		t.Errorf("%v, and in another order %v", one, two)
	}
}
