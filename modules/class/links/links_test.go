// SPDX-License-Identifier: Apache-2.0

package links

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/core/module"
	"weir/kernel/probe"
	"weir/kernel/testutil"
)

// slow is a link that needs tens of milliseconds per datagram, so that whole bursts queue up; the
// queues of all classes except lbe hold a burst.
func slow(preset string) string {
	return "  eth0:\n    rate: 1Mbit\n    preset: " + preset + "\n    classes:\n" +
		"      premium: {queue: 5s, ecn: false}\n      best-effort: {queue: 5s, ecn: false}\n      lbe: {queue: 1s, ecn: false}\n"
}

// between counts the datagrams of one class that arrive between the first and the last of another
// class, which must be complete and in order.
func between(t *testing.T, all []arrival, of, other byte, packets int) (n int) {
	t.Helper()
	next := 0
	for _, a := range all {
		switch {
		case a.dscp == other && next > 0 && next < packets:
			n++
		case a.dscp == of:
			if a.number != next {
				t.Fatalf("datagram %d of DSCP %d came in the place of %d", a.number, of, next)
			}
			next++
		}
	}
	if next != packets {
		t.Errorf("%d of %d datagrams with DSCP %d arrived", next, packets, of)
	}
	return n
}

// Beside less than best effort in excess, other classes lose nothing and stay in order; it gets its
// 1 % share. With a single priority (table 1 of the paper) it alternates with best effort, with two
// (table 2) it does not.
func TestLessThanBestEffortGivesWay(t *testing.T) {
	const ef, be, many = 10, 60, 400
	for preset, test := range map[string]struct{ least, most int }{
		Own: {0, 8}, "geant-1": {be / 2, be * 3 / 2}, "geant-2": {0, 8},
	} {
		for _, low := range []byte{1, 8} {
			t.Run(fmt.Sprintf("%s DSCP %d", preset, low), func(t *testing.T) {
				s := newStage(t, "")
				have := s.apply(t, slow(preset))
				fd := s.listen(t)
				s.send(t, train{low, many, 0}, train{46, ef, 0}, train{0, be, 0})
				all := s.received(t, fd, have)
				between(t, all, 46, low, ef)
				if n := between(t, all, 0, low, be); n < test.least || n > test.most {
					t.Errorf("%d datagrams of less than best effort came among %d of best effort, want %d to %d", n, be, test.least, test.most)
				}
				sent, dropped := s.row(t, have, lowEffort)
				if sent == 0 || dropped == 0 || sent+dropped < many {
					t.Errorf("of less than best effort %d were sent and %d dropped, of %d", sent, dropped, many)
				}
				for _, name := range []string{bestEffort, "premium"} {
					if _, lost := s.row(t, have, name); lost != 0 {
						t.Errorf("%s lost %d", name, lost)
					}
				}
			})
		}
	}
}

// Less than best effort keeps its share while best effort fills the link.
func TestLessThanBestEffortIsNotStarved(t *testing.T) {
	s := newStage(t, "")
	have := s.apply(t, strings.ReplaceAll(slow(Own), "lbe: {", "lbe: {weight: 5%, ")+"      network-control: {weight: 1%}\n")
	fd := s.listen(t)
	const be = 200
	s.send(t, train{0, be, 0}, train{1, 100, 0})
	if n := between(t, s.received(t, fd, have), 0, 1, be); n < be/40 || n > be/8 {
		t.Errorf("%d datagrams of less than best effort came among %d of best effort, want about 5 %%", n, be)
	}
}

// The queue of a class is bounded in time, with any leaf.
func TestWhatWaitsIsBounded(t *testing.T) {
	for keys, needs := range map[string]string{"ecn: false": "", "ecn: true": "fq_codel", "leaf: fq_codel, ecn: false": "fq_codel", "leaf: cake": "cake"} {
		t.Run(keys, func(t *testing.T) {
			if needs != "" {
				testutil.Need(t, needs, probe.Qdisc(needs))
			}
			s := newStage(t, "")
			have := s.apply(t, "  eth0: {rate: 10Mbit, classes: {lbe: {queue: 100ms, "+keys+"}}}\n")
			s.send(t, train{1, 2000, 0})
			sent, dropped := s.row(t, have, lowEffort)
			// 125,000 bytes in 120 datagrams or 82 packets, plus datagrams sent meanwhile
			if waits := 2000 - int(sent) - int(dropped); waits > 130 {
				t.Errorf("%d datagrams wait, of 2000", waits)
			}
			testutil.Eventually(t, time.Minute, "an empty queue", func() bool { return !s.waits(t, have) })
		})
	}
}

// formers are trees installed before the test.
var formers = map[string]string{
	"default": "", "pfifo": "qdisc add dev eth0 root handle 5: pfifo limit 77",
	"htb": "qdisc add dev eth0 root handle 1: htb default 20 r2q 5\nclass add dev eth0 parent 1: classid 1:20 htb rate 10mbit ceil 20mbit prio 3\n" +
		"qdisc add dev eth0 parent 1:20 handle 20: pfifo limit 9",
	"clsact": "qdisc add dev eth0 clsact",
}

func TestTheFormerTreeComesBack(t *testing.T) {
	for name, commands := range formers {
		for _, queues := range []string{"", "numtxqueues 4 numrxqueues 4"} {
			t.Run(name+" "+queues, func(t *testing.T) {
				s := newStage(t, queues)
				for line := range strings.Lines(commands) {
					run(t, "tc", "-n "+s.here.Name+" "+line)
				}
				before := s.show(t)
				s.apply(t, "  eth0: {rate: 10Mbit}\n")
				ours := s.show(t)
				if !strings.Contains(ours, "77e1:") || !strings.Contains(ours, "weir_class") {
					t.Fatalf("the active tree is %s", ours)
				}
				changed := s.apply(t, "  eth0: {rate: 20Mbit, preset: geant-2, classes: {video: {dscp: [AF41], weight: 0%}}}\n")
				if strings.Count(s.show(t), "class htb 77e1:") != 6 {
					t.Errorf("after a change there is %s", s.show(t))
				}
				s.apply(t, "  eth0: {rate: 10Mbit}\n")
				if again := withoutProgram(s.show(t)); again != withoutProgram(ours) {
					t.Errorf("changed and changed back is\n%s, want\n%s", again, ours)
				}
				if released, err := s.release(); err != nil || !released {
					t.Fatalf("released: %t, %v", released, err)
				}
				if after := s.show(t); after != before {
					t.Errorf("after the release there is\n%s, before there was\n%s", after, before)
				}
				if s.inPlace(t, changed) || s.inPlace(t, module.State{}) {
					t.Error("released, and in place")
				}
			})
		}
	}
}

// withoutProgram removes the program's id and tag, which differ after each load.
func withoutProgram(text string) string {
	head, _, _ := strings.Cut(text, "filter ")
	return head
}

func TestWhatCannotBeDoneIsRefused(t *testing.T) {
	for name, test := range map[string]struct{ before, policy, want string }{
		"no device":       {"", "  eth7: {rate: 1Gbit}\n", "links.eth7: there is no device eth7"},
		"not restorable":  {"qdisc add dev eth0 root handle 5: red limit 400000 avpkt 1000 burst 55", "  eth0: {rate: 1Gbit}\n", "could not be restored"},
		"somebody else's": {"qdisc add dev eth0 root handle 77e1: pfifo", "  eth0: {rate: 1Gbit}\n", "a tree of Weir's already"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, "")
			if strings.Contains(test.before, " red ") {
				testutil.Need(t, "red", probe.Qdisc("red"))
			}
			if test.before != "" {
				run(t, "tc", "-n "+s.here.Name+" "+test.before)
			}
			before := s.show(t)
			if _, err := s.try(module.State{}, s.state(t, test.policy)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
			if after := s.show(t); after != before {
				t.Errorf("refused, and changed\n%s to\n%s", before, after)
			}
		})
	}
}

func TestARateBeyondTheDevicesIsRefused(t *testing.T) {
	link := &Treatment{Rate: 1e10}
	if err := link.fits(1e9); err == nil || !strings.Contains(err.Error(), "the device carries 1 Gbit/s: at 10 Gbit/s") {
		t.Errorf("10 Gbit/s at a device of 1: %v", err)
	}
	if err := errors.Join(link.fits(0), link.fits(1e10)); err != nil {
		t.Error(err)
	}
}

// A recreated device gets its classes again; a missing one is no error.
func TestADeviceGoesAndComesBack(t *testing.T) {
	s := newStage(t, "")
	const text = "  eth0: {rate: 10Mbit}\n"
	have := s.apply(t, text)
	run(t, "ip", "-n "+s.here.Name+" link delete eth0")
	if !s.inPlace(t, have) {
		t.Error("a device has gone, and what is left is not in place")
	}
	notes, err := s.try(have, have)
	if err != nil || !strings.Contains(strings.Join(notes, " "), "the device is gone") {
		t.Errorf("applied without the device: %q, %v", notes, err)
	}
	s.link(t, "")
	before := s.show(t)
	if s.inPlace(t, have) {
		t.Error("the device has no classes, and is in place")
	}
	s.apply(t, text)
	if _, err := s.release(); err != nil {
		t.Fatal(err)
	}
	if after := s.show(t); after != before {
		t.Errorf("after the release there is\n%s, before there was\n%s", after, before)
	}
}

// Frames longer than the MTU at the time of apply would be dropped: then the tree is not in place.
func TestALargerMTUIsSeen(t *testing.T) {
	s := newStage(t, "")
	have := s.apply(t, "  eth0: {rate: 10Mbit}\n")
	for _, mtu := range []string{"1400", "9000"} {
		run(t, "ip", "-n "+s.here.Name+" link set eth0 mtu "+mtu)
		if in := s.inPlace(t, have); in != (mtu == "1400") {
			t.Errorf("MTU %s: in place: %t", mtu, in)
		}
	}
	s.apply(t, "  eth0: {rate: 10Mbit}\n")
}

// A foreign tree in place of Weir's stays.
func TestSomebodyElsesTreeStays(t *testing.T) {
	s := newStage(t, "")
	have := s.apply(t, "  eth0: {rate: 10Mbit}\n")
	run(t, "tc", "-n "+s.here.Name+" qdisc replace dev eth0 root handle 9: pfifo limit 5")
	if s.inPlace(t, have) {
		t.Error("another tree is there, and ours is in place")
	}
	if _, err := s.try(have, have); err == nil || !strings.Contains(err.Error(), "somebody else") {
		t.Errorf("applied over it: %v", err)
	}
	if !strings.Contains(s.show(t), "pfifo") {
		t.Errorf("there is %s", s.show(t))
	}
	run(t, "tc", "-n "+s.here.Name+" qdisc del dev eth0 root")
}
