package prove

import (
	"strings"
	"testing"
	"time"
)

// mbit makes repetitions that arrived and were charged at these rates.
func mbit(rates ...float64) []Sample {
	var all []Sample
	for i, r := range rates {
		all = append(all, Sample{Repetition: i + 1, Received: r * 1e6, Charged: r * 1e6, Quotient: 1})
	}
	return all
}

func TestJudge(t *testing.T) {
	free := circumstances{capacity: 1e9}
	busy := mbit(80, 80.1, 79.9)
	busy[1].Busy = 1
	foreigner := mbit(60, 60, 60)
	uncovered := mbit(99, 99, 99)
	for i := range foreigner {
		foreigner[i].Charged, foreigner[i].Quotient, uncovered[i].Quotient = 99.5e6, 1.66, 0.1
	}
	for _, test := range []struct {
		name    string
		samples []Sample
		c       circumstances
		want    Verdict
		why     string
	}{
		{"within", mbit(99, 99.5, 100), free, Holds, ""},
		{"one repetition has no interval", mbit(100), free, Holds, ""},
		{"at the lower edge", mbit(98, 98, 98), free, Holds, ""},
		{"above", mbit(103, 103.1, 103), free, Leaks, "103.0 %"},
		{"below", mbit(80, 80.1, 79.9), free, Under, "1 Gbit/s"},
		{"a wide interval", mbit(90, 100, 110), free, CannotSay, "partly outside"},
		{"below, and the processors were busy", busy, free, CannotSay, "busy"},
		{"below, and nobody knows the path", mbit(80, 80, 80), circumstances{unknown: "all belongs to host"}, CannotSay, "belongs to host"},
		{"below a scope around it", mbit(50, 50, 50), circumstances{capacity: 1e9, tighter: "outer with 50 Mbit/s"}, CannotSay, "outer"},
		{"a scope with traffic of its own", foreigner, free, Holds, ""},
		{"not charged", uncovered, free, Leaks, "90 %"},
	} {
		got, why := judge(100e6, test.samples, test.c)
		if got != test.want || !strings.Contains(why, test.why) {
			t.Errorf("%s: %q because %q; want %q because of %q", test.name, got, why, test.want, test.why)
		}
	}
}

func TestShortestWindowHoldsAHundredPackets(t *testing.T) {
	if got := shortest(1_211_200); got != time.Second {
		t.Errorf("a hundred full packets at 1.2112 Mbit/s take %s, want 1s", got)
	}
}

func TestProcessors(t *testing.T) {
	before, err := parseProcessors("cpu  10 0 10 70 10 0 0 0 5 0\ncpu0 1 2\n")
	if err != nil || before != (processors{100, 80}) {
		t.Fatalf("%+v, %v", before, err)
	}
	after := processors{200, 105}
	if busy := after.busySince(before); busy != 0.75 {
		t.Errorf("busy for %g of the time, want 0.75", busy)
	}
	for _, text := range []string{"", "cpu 1 2 3", "intr 1 2 3 4 5", "cpu a b c d e"} {
		if _, err := parseProcessors(text); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}
