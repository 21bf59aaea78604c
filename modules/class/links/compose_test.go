// SPDX-License-Identifier: Apache-2.0

package links

import (
	"strings"
	"testing"

	"weir/internal/units"
)

func TestNewRefusesWhatALinkCannotHave(t *testing.T) {
	for _, c := range []struct {
		preset   string
		rate     units.BitRate
		ceilings map[string]units.BitRate
		want     string
	}{
		{"none", 1e6, nil, `no preset "none"`},
		{Own, 1, nil, "is below the minimum"},
		{Own, 1e6, map[string]units.BitRate{"gold": 1e5}, `no class "gold"`},
		{Own, 1e6, map[string]units.BitRate{lowEffort: 2e6}, "a ceiling of"},
	} {
		if _, err := New("eth0", c.preset, c.rate, c.ceilings, false); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c, err, c.want)
		}
	}
}

func TestACeilingLowersTheWeight(t *testing.T) {
	link, err := New("eth0", Own, 20e6, map[string]units.BitRate{bestEffort: 5e6}, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range link.Classes {
		if own := share(link.Rate, c.Weight); own > link.ceiling(c) {
			t.Errorf("%s: %s of its own, and a ceiling of %s", c.Name, own, link.ceiling(c))
		}
		if c.ECN != NeverMark {
			t.Errorf("%s may mark, and was to be first in, first out", c.Name)
		}
	}
}

func TestInstallOnceAtADeviceOfOnesOwn(t *testing.T) {
	s := newStage(t, "")
	link, err := New("eth0", Own, 20e6, nil, true)
	must(t, err)
	must(t, link.Install(s.here))
	if shown := s.show(t); !strings.Contains(shown, "htb 77e1:") {
		t.Errorf("installed: %s", shown)
	}
	if err := link.Install(s.here); err == nil {
		t.Error("a device that has classes was given others")
	}
}
