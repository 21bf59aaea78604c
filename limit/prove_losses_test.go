// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"strings"
	"testing"

	"weir/internal/room"
	"weir/internal/units"
)

// A scope that holds its rate by dropping does not hold.
func TestJudgeLosses(t *testing.T) {
	free := room.Circumstances{Capacity: 1e9}
	lossy := func(again, sent, lost uint64, busy float64) []room.Sample {
		all := mbit(99, 99, 99)
		for i := range all {
			all[i].Left, all[i].Again, all[i].Busy = 1_000_000, again, busy
		}
		all[0].Probes = room.Probes{Sent: sent, Lost: lost}
		return all
	}
	refusing := func(all []room.Sample) []room.Sample {
		for i := range all {
			all[i].Counters = map[string]uint64{"refused": 60}
		}
		return all
	}
	ofPath := func(l room.Losses) room.Circumstances { return room.Circumstances{Capacity: 1e9, Losses: l} }
	for _, test := range []struct {
		name    string
		samples []room.Sample
		c       room.Circumstances
		want    room.Verdict
		why     string
	}{
		{"nothing lost", lossy(0, 1000, 0, 0), free, room.Holds, ""},
		{"a hundredth sent again", lossy(10_000, 1000, 0, 0), free, room.Holds, ""},
		{"more than that", lossy(11_000, 1000, 0, 0), free, room.Loses, "1.1 % of what TCP sent"},
		{"small packets lost by accident", lossy(0, 1000, 3, 0), free, room.Holds, ""},
		{"one of a few", lossy(0, 240, 1, 0), free, room.Holds, ""},
		{"too many small packets lost", lossy(0, 1000, 4, 0), free, room.Loses, "4 of 1000 small packets"},
		{"on busy processors", lossy(100_000, 1000, 0, 1), free, room.CannotSay, "busy"},
		{"on busy processors, dropped by the scope", refusing(lossy(100_000, 1000, 0, 1)), free, room.Loses, "10.0 %"},
		{"on a path that nobody knows", lossy(100_000, 1000, 0, 0), room.Circumstances{Unknown: "all belongs to host"}, room.CannotSay, "all belongs to host"},
		{"on a path that loses itself", lossy(100_000, 1000, 0, 0), ofPath(room.Losses{Again: 0.05}), room.CannotSay, "without the limit 5.0 %"},
	} {
		check := Room{}.Checks(limitedScope("a", "", Treatment{Ingress: &Limit{Rate: 100e6}}))[0]
		if got, why := check.Judge(test.samples, test.c); got != test.want || !strings.Contains(why, test.why) {
			t.Errorf("%s: %q because %q; want %q because of %q", test.name, got, why, test.want, test.why)
		}
	}
	over := lossy(500_000, 0, 0, 0)
	for i := range over {
		over[i].Received, over[i].Charged = 120e6, 120e6
	}
	check := Room{}.Checks(limitedScope("a", "", Treatment{Ingress: &Limit{Rate: 100e6}}))[0]
	if got, _ := check.Judge(over, free); got != room.Leaks {
		t.Errorf("what leaks and loses: %q", got)
	}
}

func TestJudgeWhatDoesNotLast(t *testing.T) {
	quic := room.Circumstances{Capacity: 1e9, Path: room.Path{Protocol: room.QUIC}}
	short := room.Circumstances{Capacity: 300e6, Path: room.Path{Protocol: room.Short}}
	lossy, busy := mbit(99, 99), mbit(50, 50)
	lossy[0].Left, lossy[0].Again, busy[0].Busy = 1000, 30, 1
	blind := quic
	blind.Capacity, blind.Unknown = 0, "all belongs to host"
	for _, test := range []struct {
		name    string
		samples []room.Sample
		c       room.Circumstances
		parent  string
		want    room.Verdict
		why     string
	}{
		{"as it should be", mbit(92, 96), quic, "", room.Holds, ""},
		{"a halved window", mbit(60, 60), quic, "", room.Under, "60.0 % of the promise"},
		{"datagrams lost", lossy, quic, "", room.Loses, "3.0 % of the datagrams"},
		{"busy processors", busy, quic, "", room.CannotSay, "busy"},
		{"a path that nobody knows", mbit(60, 60), blind, "", room.CannotSay, "all belongs to host"},
		{"beside siblings", mbit(60, 60), quic, "family", room.CannotSay, "family, which its siblings"},
		{"short transfers behind their path", mbit(70, 70), short, "", room.Holds, ""},
		{"short transfers that wait", mbit(60, 60), short, "", room.Under, "300 Mbit/s of such flows"},
	} {
		check := Room{}.Checks(limitedScope("a", test.parent, Treatment{Egress: &Limit{Rate: 100e6}}))[0]
		if got, why := check.Judge(test.samples, test.c); got != test.want || !strings.Contains(why, test.why) {
			t.Errorf("%s: %q because %q; want %q because of %q", test.name, got, why, test.want, test.why)
		}
	}
}

func TestShortTransfersFitTheRate(t *testing.T) {
	for promise, want := range map[units.BitRate]int{64_000: 10_000, 1_000_000: 31_250, 1_000_000_000: 100_000} {
		if got := proofFlow(room.Path{Protocol: room.Short}, promise).Size; got != want {
			t.Errorf("%s: %d octets, want %d", promise, got, want)
		}
	}
}
