// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"strings"
	"testing"

	"weir/core/module"
)

func TestExemptTrafficThatIsHeldBackIsTold(t *testing.T) {
	s := charged{check: module.Check{Promise: 20e6, Charged: module.Charge{Exempt: "lo is exempt"}}}
	for _, test := range []struct {
		inside, outside float64
		want            State
	}{
		{21e6, 17e9, Slowed},
		{16e9, 17e9, NotApplicable},
		{2e9, 17e9, NotApplicable},  // on a busy machine
		{18e6, 22e6, NotApplicable}, // on a machine that is no faster
	} {
		b := judgeExempt(s, test.inside, test.outside)
		if b.State != test.want || (test.want == Slowed) != strings.Contains(b.Why, "21 Mbit/s inside") {
			t.Errorf("%g inside, %g outside: %s, %s; want %s", test.inside, test.outside, b.State, b.Why, test.want)
		}
		if failed := (&Result{Bypasses: []Bypass{b}}).Failed(); failed != (test.want == Slowed) {
			t.Errorf("%s: failed %t", b.State, failed)
		}
	}
}
