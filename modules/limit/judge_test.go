// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"strings"
	"testing"

	"weir/core/module"
	"weir/internal/units"
)

// A rate with excessive drops does not hold.
func TestJudgeLosses(t *testing.T) {
	free := module.Circumstances{Capacity: 1e9}
	lossy := func(again, sent, lost uint64, busy float64) []module.Sample {
		all := mbit(99, 99, 99)
		for i := range all {
			all[i].Left, all[i].Again, all[i].Busy = 1_000_000, again, busy
		}
		all[0].Probes = module.Probes{Sent: sent, Lost: lost}
		return all
	}
	policedState := func(all []module.Sample) []module.Sample {
		for i := range all {
			all[i].Counters = map[string]uint64{"dropped": 60}
		}
		return all
	}
	ofPath := func(l module.Losses) module.Circumstances { return module.Circumstances{Capacity: 1e9, Losses: l} }
	for _, test := range []struct {
		name    string
		samples []module.Sample
		c       module.Circumstances
		want    module.Verdict
		why     string
	}{
		{"nothing lost", lossy(0, 1000, 0, 0), free, module.Holds, ""},
		{"a hundredth sent again", lossy(10_000, 1000, 0, 0), free, module.Holds, ""},
		{"more than that", lossy(11_000, 1000, 0, 0), free, module.Loses, "TCP retransmitted 1.1 %"},
		{"small packets lost by accident", lossy(0, 1000, 3, 0), free, module.Holds, ""},
		{"one of a few", lossy(0, 240, 1, 0), free, module.Holds, ""},
		{"too many small packets lost", lossy(0, 1000, 4, 0), free, module.Loses, "4 of 1000 small packets"},
		{"on busy processors", lossy(100_000, 1000, 0, 1), free, module.CannotSay, "busy"},
		{"on busy processors, dropped by the scope", policedState(lossy(100_000, 1000, 0, 1)), free, module.Loses, "10.0 %"},
		{"on a path that nobody knows", lossy(100_000, 1000, 0, 0), module.Circumstances{Unknown: "all belongs to host"}, module.CannotSay, "all belongs to host"},
		{"on a path that loses itself", lossy(100_000, 1000, 0, 0), ofPath(module.Losses{Again: 0.05}), module.CannotSay, "without the limit TCP retransmitted 5.0 %"},
	} {
		check := Module{}.Checks(limitedScope("a", "", Treatment{Ingress: &Limit{Rate: 100e6}}))[0]
		if got, why := check.Judge(test.samples, test.c); got != test.want || !strings.Contains(why, test.why) {
			t.Errorf("%s: %q because %q; want %q because of %q", test.name, got, why, test.want, test.why)
		}
	}
	over := lossy(500_000, 0, 0, 0)
	for i := range over {
		over[i].Received, over[i].Charged = 120e6, 120e6
	}
	check := Module{}.Checks(limitedScope("a", "", Treatment{Ingress: &Limit{Rate: 100e6}}))[0]
	if got, _ := check.Judge(over, free); got != module.Leaks {
		t.Errorf("what leaks and loses: %q", got)
	}
}

func TestJudgeShortFlows(t *testing.T) {
	quic := module.Circumstances{Capacity: 1e9, Path: module.Path{Protocol: module.QUIC}}
	short := module.Circumstances{Capacity: 300e6, Path: module.Path{Protocol: module.Short}}
	lossy, busy := mbit(99, 99), mbit(50, 50)
	lossy[0].Left, lossy[0].Again, busy[0].Busy = 1000, 30, 1
	blind := quic
	blind.Capacity, blind.Unknown = 0, "all belongs to host"
	for _, test := range []struct {
		name    string
		samples []module.Sample
		c       module.Circumstances
		parent  string
		want    module.Verdict
		why     string
	}{
		{"as it should be", mbit(92, 96), quic, "", module.Holds, ""},
		{"a halved window", mbit(60, 60), quic, "", module.Under, "60.0 % of the promise"},
		{"datagrams lost", lossy, quic, "", module.Loses, "3.0 % of the datagrams"},
		{"busy processors", busy, quic, "", module.CannotSay, "busy"},
		{"a path that nobody knows", mbit(60, 60), blind, "", module.CannotSay, "all belongs to host"},
		{"beside siblings", mbit(60, 60), quic, "family", module.CannotSay, "family, shared with its siblings"},
		{"short transfers behind their path", mbit(70, 70), short, "", module.Holds, ""},
		{"short transfers that wait", mbit(60, 60), short, "", module.Under, "300 Mbit/s of such flows"},
	} {
		check := Module{}.Checks(limitedScope("a", test.parent, Treatment{Egress: &Limit{Rate: 100e6}}))[0]
		if got, why := check.Judge(test.samples, test.c); got != test.want || !strings.Contains(why, test.why) {
			t.Errorf("%s: %q because %q; want %q because of %q", test.name, got, why, test.want, test.why)
		}
	}
}

func TestShortTransfersFitTheRate(t *testing.T) {
	for promise, want := range map[units.BitRate]int{64_000: 10_000, 1_000_000: 31_250, 1_000_000_000: 100_000} {
		if got := proofFlow(module.Path{Protocol: module.Short}, promise).Size; got != want {
			t.Errorf("%s: %d octets, want %d", promise, got, want)
		}
	}
}
