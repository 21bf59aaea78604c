// SPDX-License-Identifier: Apache-2.0

package tc_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"weir/kernel/probe"
	"weir/kernel/tc"
	"weir/kernel/testutil"
)

func needNetem(t *testing.T) {
	t.Helper()
	testutil.NeedRoot(t)
	testutil.Need(t, "netem", probe.Netem())
}

func TestNetemInTheKernelsWords(t *testing.T) {
	needNetem(t)
	for _, test := range []struct {
		description string
		spec        tc.NetemSpec
		want        []string
	}{
		{"rate of an Ethernet wire", tc.NetemSpec{Rate: 100_000_000, Overhead: 24, Limit: 77}, []string{"limit 77", "rate 100Mbit packetoverhead 24"}},
		{"rate beyond 32 bits of octets", tc.NetemSpec{Rate: 100_000_000_000}, []string{"rate 100Gbit"}},
		{"delay with normal jitter", tc.NetemSpec{Delay: 20 * time.Millisecond, Jitter: 2 * time.Millisecond, Distribution: tc.Normal},
			[]string{"delay 20ms 2ms"}},
		{"delay below a tick of old", tc.NetemSpec{Delay: 1500 * time.Nanosecond}, []string{"delay 1us"}},
		{"independent loss", tc.NetemSpec{Loss: tc.Loss{Probability: .01}}, []string{"loss 1%"}},
		{"Gilbert-Elliott", tc.NetemSpec{Loss: tc.Loss{GE: true, P: .005, R: .25, BadLoss: .9, GoodLoss: .001}},
			[]string{"loss gemodel p 0.5% r 25% 1-h 90% 1-k 0.1%"}},
		{"the rest", tc.NetemSpec{Delay: time.Millisecond, Duplicate: .02, Corrupt: .03, Reorder: .25},
			[]string{"duplicate 2%", "corrupt 3%", "reorder 25%", "gap 1"}},
		{"ECN", tc.NetemSpec{ECN: true, Loss: tc.Loss{Probability: .5}}, []string{"loss 50%", "ecn"}},
	} {
		t.Run(test.description, func(t *testing.T) {
			b := newBench(t)
			must(t, b.tc.AddNetem("a", tc.Place{Handle: tc.MakeHandle(1, 0)}, test.spec))
			got := b.show(t, "qdisc")
			for _, want := range test.want {
				if !strings.Contains(got, want) {
					t.Errorf("tc says %q, without %q", got, want)
				}
			}
		})
	}
}

// netemSent counts the datagrams of one run; all are counted by the qdisc as passed or dropped.
func netemSent(t *testing.T, spec tc.NetemSpec, count int) (arrived [][]byte, q tc.Qdisc) {
	t.Helper()
	b := newBench(t)
	must(t, b.tc.AddNetem("a", tc.Place{}, spec))
	arrived = b.send(t, count, 100, 300*time.Millisecond)
	return arrived, b.only(t, "netem")
}

func TestNetemLosesItsShareAndRepeatsIt(t *testing.T) {
	needNetem(t)
	const count = 4000
	for name, loss := range map[string]tc.Loss{
		"independent":     {Probability: .1},
		"gilbert-elliott": {GE: true, P: .05, R: .45, BadLoss: 1}, // stationary loss .05/(.05+.45) = 10 %
	} {
		t.Run(name, func(t *testing.T) {
			spec := tc.NetemSpec{Limit: count, Loss: loss, Seed: 42}
			first, q := netemSent(t, spec, count)
			second, _ := netemSent(t, spec, count)
			// Deviation of independent loss: sqrt(n p q); bursts of mean 1/R widen it by about
			// sqrt((1+c)/(1-c)), c = 1-P-R.
			sigma := math.Sqrt(count*.1*.9) * math.Sqrt(1.5/.5)
			if lost := float64(count - len(first)); math.Abs(lost-.1*count) > 5*sigma {
				t.Errorf("lost %v of %d, want 10 %% within %v", lost, count, 5*sigma)
			}
			if q.Drops != uint64(count-len(first)) {
				t.Errorf("%d drops counted, %d datagrams missing", q.Drops, count-len(first))
			}
			if len(first) != len(second) {
				t.Errorf("one seed lost %d and then %d", count-len(first), count-len(second))
			}
		})
	}
}

func TestNetemDelaysDuplicatesAndDropsAtItsLimit(t *testing.T) {
	needNetem(t)
	started := time.Now()
	arrived, _ := netemSent(t, tc.NetemSpec{Delay: 50 * time.Millisecond, Duplicate: 1}, 10)
	if len(arrived) != 20 {
		t.Errorf("%d arrived of 10 duplicated", len(arrived))
	}
	if took := time.Since(started); took < 50*time.Millisecond {
		t.Errorf("took %s with a delay of 50 ms", took)
	}
	arrived, q := netemSent(t, tc.NetemSpec{Delay: 100 * time.Millisecond, Limit: 10}, 50)
	if len(arrived) < 10 || len(arrived)+int(q.Drops) < 50 || q.Drops < 10 {
		t.Errorf("%d arrived through a limit of 10, qdisc %+v", len(arrived), q)
	}
}

func TestNetemRateCountsTheOverhead(t *testing.T) {
	needNetem(t)
	b := newBench(t)
	// 1 Mbit/s carries a frame of 142 + 24 octets in 1.328 ms: 100 of them need 131 ms at least,
	// 113 ms without overhead.
	must(t, b.tc.AddNetem("a", tc.Place{}, tc.NetemSpec{Rate: 1_000_000, Overhead: 24}))
	started := time.Now()
	arrived := b.send(t, 100, 100, 300*time.Millisecond)
	if len(arrived) != 100 {
		t.Fatalf("%d of 100 arrived", len(arrived))
	}
	if took := time.Since(started) - 300*time.Millisecond; took < 131*time.Millisecond {
		t.Errorf("took %s, less than the rate allows", took)
	}
}
