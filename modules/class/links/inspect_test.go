// SPDX-License-Identifier: Apache-2.0

package links

import (
	"strings"
	"testing"
	"time"

	"weir/core/module"
	"weir/kernel/testutil"
)

func (s *stage) inspect(t *testing.T, have module.State) (found []module.Inspection) {
	t.Helper()
	must(t, s.here.Do(func() (err error) {
		found, err = s.plane.Inspect(t.Context(), have, 1)
		return err
	}))
	return found
}

// Under load Weir's classes keep their promise, and those of the paper's first table harm best
// effort. The test's packets do not leave the link.
func TestClassesAreProvedUnderLoad(t *testing.T) {
	testutil.NeedInstructionClock(t)
	for preset, want := range map[string]module.Verdict{"weir": module.Holds, "geant-2": module.Holds, "geant-1": module.Fails} {
		t.Run(preset, func(t *testing.T) {
			s := newStage(t, "")
			have := s.apply(t, "  eth0: {rate: 10Mbit, preset: "+preset+"}\n")
			found := s.inspect(t, have)
			if len(found) != 1 {
				t.Fatalf("found %+v", found)
			}
			one := found[0]
			t.Logf("%s: %s: %s", one.Verdict, one.Looked, one.Reason)
			if one.Verdict != want || want == module.Fails && !strings.Contains(one.Reason, "best-effort lost") {
				t.Errorf("%s: %s, want %s", one.Verdict, one.Reason, want)
			}
		})
	}
}

func TestWhatCannotBeTestedIsSaid(t *testing.T) {
	s := newStage(t, "")
	have := s.state(t, "  eth0: {rate: 10Mbit}\n  eth7: {rate: 10Mbit}\n")
	found := s.inspect(t, have)
	if found[0].Verdict != module.Fails || !strings.Contains(found[0].Reason, "no classes") {
		t.Errorf("without a tree: %+v", found[0])
	}
	if found[1].Verdict != module.CannotSay || found[1].Reason != "there is no such device" {
		t.Errorf("without a device: %+v", found[1])
	}
	run(t, "ip", "-n "+s.here.Name+" link set eth0 down")
	if found := s.inspect(t, have); found[0].Verdict != module.CannotSay {
		t.Errorf("a link that is down: %+v", found[0])
	}
}

// judged returns the judge's verdict about streams of 100 packets on a link of 10 Mbit/s, after a
// change.
func judged(t *testing.T, change func(*measured)) module.Inspection {
	t.Helper()
	link := only(t, "  eth0: {rate: 10Mbit}\n")
	m := measured{window: window}
	for _, s := range link.offered() {
		out := &sender{stream: s, wire: link.onWire(s)}
		out.sent = uint32(float64(s.rate) / 8 / float64(out.wire) * (warmup + window).Seconds())
		l := left{packets: out.sent, inWindow: uint32(float64(s.rate) / 8 / float64(out.wire) * window.Seconds())}
		if link.Classes[s.class].Name == lowEffort {
			l.inWindow = uint32(.15 * float64(link.Rate) / 8 / float64(out.wire) * window.Seconds())
			l.packets = 2 * l.inWindow
		}
		m.streams, m.seen = append(m.streams, out), append(m.seen, l)
	}
	change(&m)
	var one module.Inspection
	link.judge(&one, m)
	return one
}

func TestEachFailureIsTold(t *testing.T) {
	const be, lbe = 2, 3
	for _, test := range []struct {
		name    string
		change  func(*measured)
		verdict module.Verdict
		reason  string
	}{
		{"all is well", func(*measured) {}, module.Holds, ""},
		{"one packet lost", func(m *measured) { m.seen[be].packets-- }, module.Fails, "best-effort lost 1 of"},
		{"one out of order", func(m *measured) { m.seen[lbe].reordered = 1 }, module.Fails, "1 packets of lbe left behind later ones"},
		{"little is left to it", func(m *measured) { m.seen[lbe].inWindow /= 2 }, module.Fails, "of the leftover"},
		{"a late host", func(m *measured) {
			m.seen[lbe].inWindow /= 2
			m.streams[lbe].late = 30 * time.Millisecond
		}, module.CannotSay, "this host was late by 30ms"},
		{"busy", func(m *measured) { m.seen[lbe].inWindow /= 2; m.busy = .97 }, module.CannotSay, "the CPUs of this host were busy"},
		{"too much", func(m *measured) { m.seen[lbe].inWindow *= 2 }, module.Fails, "more than the link's rate"},
		{"lost beside others", func(m *measured) { m.seen[be].packets--; m.strange = 2e6 }, module.CannotSay, "others sent 2 Mbit/s"},
		{"marked again", func(m *measured) { m.seen[be].strange = 9 }, module.CannotSay, "another program changes the marks"},
		{"not seen", func(m *measured) { m.missed = 3 }, module.CannotSay, "3 are missing"},
		{"not sent", func(m *measured) { m.streams[lbe].sent /= 20 }, module.CannotSay, "does not fill the leftover"},
	} {
		if one := judged(t, test.change); one.Verdict != test.verdict || !strings.Contains(one.Reason, test.reason) {
			t.Errorf("%s: %s: %s; looked at %s", test.name, one.Verdict, one.Reason, one.Looked)
		}
	}
}
