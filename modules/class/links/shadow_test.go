// SPDX-License-Identifier: Apache-2.0

package links

import (
	"regexp"
	"strings"
	"testing"

	"weir/core/module"
)

var clsact = regexp.MustCompile(`,\{"kind":"clsact".*?"options":\{\}\}`)

// In shadow the device keeps its tree, and the hypothetical drops of each class are reported. A
// link changes from shadow to active and back.
func TestALinkInShadowOnlyCounts(t *testing.T) {
	s := newStage(t, "")
	// Without TCX the program is a clsact filter.
	tree := func() string { return clsact.ReplaceAllString(s.show(t), "") }
	before := tree()
	const policy = "  eth0: {rate: 1Mbit, overhead: 0}\n"
	have := s.apply(t, strings.Replace(policy, "}", ", shadow: true}", 1))
	if after := tree(); after != before {
		t.Errorf("the device has\n%s, before it had\n%s", after, before)
	}
	fd := s.listen(t)
	// 20 datagrams of best effort fill its 50 ms with six and a half; the 20 ms of lbe are full.
	s.send(t, train{0, 20, 0}, train{1, 5, 0}, train{46, 1, 0})
	if got := len(s.received(t, fd, have)); got != 26 {
		t.Errorf("%d datagrams arrived, want all 26", got)
	}
	for name, want := range map[string][2]uint64{"best-effort": {20, 13}, "lbe": {5, 5}, "premium": {1, 0}} {
		if packets, dropped := s.row(t, have, name); packets != want[0] || dropped > want[1] || want[1] > 0 && dropped == 0 {
			t.Errorf("%s: %d packets and %d without room, want %v at most", name, packets, dropped, want)
		}
	}
	if found := s.inspect(t, have); len(found) != 1 || found[0].Verdict != module.InShadow {
		t.Errorf("proved: %+v", found)
	}
	s.apply(t, policy)
	if tree() == before {
		t.Error("it came into force, and the device has its former tree")
	}
	s.apply(t, strings.Replace(policy, "}", ", shadow: true}", 1))
	if after := tree(); after != before {
		t.Errorf("back in shadow the device has\n%s, before it had\n%s", after, before)
	}
	if released, err := s.release(); err != nil || !released || s.inPlace(t, module.State{}) {
		t.Errorf("released: %t, %v", released, err)
	}
}
