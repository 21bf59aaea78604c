// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"strings"
	"testing"
	"time"

	"weir/core/module"
	"weir/core/policy"
	"weir/modules/limit/police"
)

// mbit returns repetitions with these received and charged rates.
func mbit(rates ...float64) []module.Sample {
	var all []module.Sample
	for i, r := range rates {
		all = append(all, module.Sample{Repetition: i + 1, Received: r * 1e6, Charged: r * 1e6, Quotient: 1})
	}
	return all
}

func limitedScope(name, parent string, t Treatment) policy.Scope {
	return policy.Scope{Name: name, Parent: parent, Treatments: policy.Treatments{moduleName: &t}}
}

func TestJudge(t *testing.T) {
	free := module.Circumstances{Capacity: 1e9}
	busy := mbit(80, 80.1, 79.9)
	busy[1].Busy = 1
	foreigner := mbit(60, 60, 60)
	uncovered := mbit(99, 99, 99)
	for i := range foreigner {
		foreigner[i].Charged, foreigner[i].Quotient, uncovered[i].Quotient = 99.5e6, 1.66, 0.1
	}
	outer := limitedScope("outer", "", Treatment{Egress: &Limit{Rate: 50e6}})
	inward := limitedScope("inward", "", Treatment{Ingress: &Limit{Rate: 50e6}})
	wide := limitedScope("wide", "", Treatment{Egress: &Limit{Rate: 100e6}})
	for _, test := range []struct {
		name    string
		samples []module.Sample
		c       module.Circumstances
		parent  string
		want    module.Verdict
		why     string
	}{
		{"within", mbit(99, 99.5, 100), free, "", module.Holds, ""},
		{"one repetition has no interval", mbit(100), free, "", module.Holds, ""},
		{"at the lower edge", mbit(98, 98, 98), free, "", module.Holds, ""},
		{"above", mbit(103, 103.1, 103), free, "", module.Leaks, "103.0 %"},
		{"below", mbit(80, 80.1, 79.9), free, "", module.Under, "1 Gbit/s"},
		{"a wide interval", mbit(90, 100, 110), free, "", module.CannotSay, "partly outside"},
		{"below, and the processors were busy", busy, free, "", module.CannotSay, "busy"},
		{"below, and nobody knows the path", mbit(80, 80, 80), module.Circumstances{Unknown: "all belongs to host"}, "", module.CannotSay, "belongs to host"},
		{"below a scope around it", mbit(50, 50, 50), module.Circumstances{Capacity: 1e9, Around: []policy.Scope{wide, outer}}, "", module.CannotSay, "outer with 50 Mbit/s"},
		{"below, around it other directions and rates", mbit(50, 50, 50), module.Circumstances{Capacity: 1e9, Around: []policy.Scope{inward, wide}}, "", module.Under, ""},
		{"below beside siblings", mbit(50, 50, 50), free, "family", module.CannotSay, "family, shared with its siblings"},
		{"a scope with traffic of its own", foreigner, free, "", module.Holds, ""},
		{"not charged", uncovered, free, "", module.Leaks, "90 %"},
	} {
		checks := Module{}.Checks(limitedScope("a", test.parent, Treatment{Egress: &Limit{Rate: 100e6}}))
		got, why := checks[0].Judge(test.samples, test.c)
		if len(checks) != 1 || got != test.want || !strings.Contains(why, test.why) {
			t.Errorf("%s: %q because %q; want %q because of %q", test.name, got, why, test.want, test.why)
		}
	}
}

func TestShortestMeasurementHoldsEnoughPackets(t *testing.T) {
	if got := shortest(1_211_200); got != 3300*time.Millisecond {
		t.Errorf("330 full packets at 1.2112 Mbit/s take %s, want 3.3s", got)
	}
}

// Until the burst is used and the queue is full, more than the rate passes: without a warm-up a
// limit of 1 Mbit/s would seem to leak.
func TestWarmupIsLongerThanTheQueueTakesToFill(t *testing.T) {
	for _, l := range []Limit{{Rate: police.MinRate}, {Rate: 1e6}, {Rate: 2e6}, {Rate: 9e6}, {Rate: 10e6}, {Rate: 1e9}, {Rate: 1e9, Drop: time.Second},
		{Rate: 1e6, Burst: 5 * time.Second}} {
		check := rateCheck(limitedScope("a", "", Treatment{Egress: &l}), Egress, l.Rate)
		sent, passes := float64(check.Flow(module.Path{Protocol: module.UDP}).Rate), float64(l.Rate)
		filled := l.WithDefaults()
		ahead := (filled.Burst + filled.Drop).Seconds() * passes // bits that the scope admits beyond its rate
		if full := ahead / (sent - passes); check.Warmup.Seconds() <= full {
			t.Errorf("%s: the queue is full after %.2f s, and the warm-up is %s", l, full, check.Warmup)
		}
	}
}

func TestChecksOfAScope(t *testing.T) {
	all := Module{}.Checks(limitedScope("a", "", Treatment{Egress: &Limit{Rate: 1e6}, Ingress: &Limit{Rate: 100e6}, Loopback: true}))
	if len(all) != 2 || all[0].Direction != Egress || all[1].Direction != Ingress {
		t.Fatalf("%+v", all)
	}
	tcp, udp := module.Path{Protocol: module.TCP}, module.Path{Protocol: module.UDP}
	if slow, fast := all[0].Flow(tcp), all[1].Flow(tcp); slow.Connections != 1 || fast.Connections != 4 || slow.Rate+fast.Rate != 0 {
		t.Errorf("TCP: %+v and %+v", slow, fast)
	}
	if f := all[1].Flow(udp); f.Rate != 125e6 {
		t.Errorf("UDP: %+v", f)
	}
	if all[0].Promised() != "1 Mbit/s, -2 % to +1 %" || all[1].Needs != 101e6 || all[0].Charged.Exempt != "" {
		t.Errorf("%q, %s, %q", all[0].Promised(), all[1].Needs, all[0].Charged.Exempt)
	}
	// The module reports every counter that a check names.
	columns := map[string]module.Kind{}
	for _, c := range (Module{}).Columns().Rows {
		columns[c.Name] = c.Kind
	}
	c := all[1].Charged
	for _, name := range append([]string{c.Octets, c.Packets, c.Segments, c.Dropped}, all[1].Counters...) {
		if columns[name] != module.Counter {
			t.Errorf("%q is no counter of the module", name)
		}
	}
}

// Packets in the queue of a device are charged too: without their counters all of it would seem to
// leak.
func TestAQueuedRateNamesItsCounters(t *testing.T) {
	all := Module{}.Checks(limitedScope("a", "", Treatment{Egress: &Limit{Rate: 20e6, Mode: police.ModeShape}}))
	if len(all) != 1 || !all[0].Queued || all[0].Charged.Octets == "" {
		t.Errorf("%+v", all)
	}
}
