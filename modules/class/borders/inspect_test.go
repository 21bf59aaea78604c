// SPDX-License-Identifier: Apache-2.0

package borders

import (
	"strings"
	"testing"

	"weir/core/module"
	"weir/kernel/device"
	"weir/kernel/testutil"
)

func (s *stage) inspect(t *testing.T, have module.State) (found []module.Inspection) {
	t.Helper()
	must(t, s.router.Do(func() (err error) {
		found, err = s.plane.Inspect(t.Context(), have, 7)
		return err
	}))
	return found
}

// Inspect accepts the active state without counting its test packets, and rejects programs of
// another policy and missing ones.
func TestProgramsInForceAreProved(t *testing.T) {
	s := newStage(t)
	have := s.apply(t, module.State{}, all+"  eth1: {from: {10.20.0.0/24: lbe}, shadow: true}\n")
	found := s.inspect(t, have)
	if len(found) != 2 || found[0].Verdict != module.Holds || found[1].Verdict != module.InShadow || !strings.Contains(found[0].Looked, "4000 packets") {
		t.Errorf("found %+v", found)
	}
	have.Host = have.Host[:1]
	if got := s.counts(t, have); got["ingress"][1] != 0 || got["egress"][2] != 0 {
		t.Errorf("what was tested counts: %v", got)
	}
	other := s.state(t, "  eth0: {from: {10.20.0.0/16: premium}, translate: {lbe: CS1}}\n")
	if found := s.inspect(t, other); found[0].Verdict != module.Fails || len(found[0].Examples) == 0 {
		t.Errorf("with another policy's programs: %+v", found)
	}
	at, err := device.Attached(s.router, "eth0", moduleName, s.plane.host.Devices)
	must(t, err)
	for _, a := range at {
		must(t, a.Detach())
	}
	if found := s.inspect(t, have); found[0].Verdict != module.Fails || !strings.Contains(found[0].Reason, "no program is at its ingress") {
		t.Errorf("without programs: %+v", found)
	}
	if found := s.inspect(t, s.state(t, "  eth9: {translate: {lbe: CS1}}\n")); found[0].Verdict != module.CannotSay {
		t.Errorf("without the device: %+v", found)
	}
}

// The border's own judge agrees with the tests' oracle.
func TestTheJudgeAgreesWithTheOracle(t *testing.T) {
	border := border(t, all)
	random := testutil.Rand(t)
	for range 5000 {
		for _, hook := range border.hooks() {
			d := border.draw(random, hook)
			want := d.dscp
			for _, p := range border.Translate {
				if hook == device.Egress && p.Here == d.dscp {
					want = p.Beyond
				}
				if hook == device.Ingress && p.Beyond == d.dscp {
					want = p.Here
				}
			}
			if hook == device.Ingress {
				if got := marked(border, d.from, d.to, byte(want)); byte(border.decide(d, hook)) != got {
					t.Fatalf("%+v: %d, want %d", d, border.decide(d, hook), got)
				}
			} else if got := border.decide(d, hook); got != want {
				t.Fatalf("%+v: %d, want %d", d, got, want)
			}
		}
	}
}
