// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/units"
)

// published are the means that simulations with these distributions state (octets).
var published = map[string]float64{WebSearch: 1_711_250, DataMining: 12_658_199}

func TestPublishedMeans(t *testing.T) {
	for _, s := range Published() {
		if got := s.Mean(); math.Abs(got-published[s.Name]) > 1 {
			t.Errorf("%s has a mean of %.0f bytes, published is %.0f", s.Name, got, published[s.Name])
		}
	}
}

// draws are the sizes of about n transfers.
func draws(s Sizes, n int, seed uint64) (sizes []uint64) {
	for _, a := range (Load{Sizes: s, PerSecond: float64(n), Seed: seed}).Plan(time.Second) {
		sizes = append(sizes, a.Octets)
	}
	return sizes
}

// A large sample has below each point of the table the share that the table says, to five standard
// errors.
func TestSamplesFollowTheTable(t *testing.T) {
	custom, err := Read("custom", "100 0.25\n100 0.5\n# nothing between\n1000 0.5\n3000 1\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range append(Published(), custom) {
		sizes := draws(s, 40_000, 7)
		n := float64(len(sizes))
		for i, p := range s.Points {
			if i+1 < len(s.Points) && s.Points[i+1].Octets == p.Octets {
				continue
			}
			below := 0
			for _, octets := range sizes {
				if float64(octets) <= p.Octets {
					below++
				}
			}
			if got := float64(below) / n; math.Abs(got-p.Share) > 5*math.Sqrt(p.Share*(1-p.Share)/n)+1e-4 {
				t.Errorf("%s: %.4f of the sizes have %.0f bytes at most, the table says %.4f", s.Name, got, p.Octets, p.Share)
			}
		}
	}
}

// Mean, with and without a largest size, is that of a large sample, to five standard errors.
func TestMeanIsThatOfSamples(t *testing.T) {
	for _, s := range Published() {
		for _, most := range []units.ByteSize{0, 50_000, 2_000_000, 3_000_000} {
			s.Most = most
			sizes := draws(s, 40_000, 3)
			var sum, squares float64
			for _, octets := range sizes {
				if most > 0 && octets > uint64(most) {
					t.Fatalf("%s up to %s has a size of %d", s.Name, most, octets)
				}
				sum, squares = sum+float64(octets), squares+float64(octets)*float64(octets)
			}
			n := float64(len(sizes))
			mean := sum / n
			if off := math.Abs(mean - s.Mean()); off > 5*math.Sqrt((squares/n-mean*mean)/n) {
				t.Errorf("%s up to %s: the mean of %d sizes is %.0f, of the distribution %.0f", s.Name, most, len(sizes), mean, s.Mean())
			}
		}
	}
}

func TestCut(t *testing.T) {
	s := Published()[0]
	s.Most = 2_000_000 // a point of the table: a fifth is larger
	share, mean := s.Cut()
	if math.Abs(share-0.2) > 1e-9 || math.Abs(mean-published[WebSearch]) > 1 {
		t.Errorf("a fifth is cut off a mean of %.0f, got %.3f of %.0f", published[WebSearch], share, mean)
	}
	s.Most = 40_000_000
	if share, _ := s.Cut(); share != 0 {
		t.Errorf("nothing is above 40 MB, got %.3f", share)
	}
}

// Gaps of a Poisson process are exponential: mean and standard deviation are equal, and the share
// above the mean is 1/e.
func TestArrivalsArePoisson(t *testing.T) {
	plan := Load{Sizes: Fixed(1), PerSecond: 1000, Seed: 11}.Plan(100 * time.Second)
	n := float64(len(plan))
	if math.Abs(n-100_000) > 5*math.Sqrt(100_000) {
		t.Errorf("%d arrivals, expected are about 100000", len(plan))
	}
	var last time.Duration
	var squares, above float64
	for _, a := range plan {
		gap := (a.At - last).Seconds() * 1000
		last = a.At
		squares += gap * gap
		if gap > 1 {
			above++
		}
	}
	if got := squares / n; math.Abs(got-2) > 0.1 {
		t.Errorf("the mean square of the gaps is %.3f of the squared mean, exponential ones have 2", got)
	}
	if got := above / n; math.Abs(got-1/math.E) > 0.01 {
		t.Errorf("%.4f of the gaps are above their mean, exponential ones 0.3679", got)
	}
}

func TestPlansComeFromTheSeed(t *testing.T) {
	l := Load{Sizes: Published()[0], PerSecond: 50, Seed: 5}
	plan := l.Plan(10 * time.Second)
	if !slices.Equal(plan, l.Plan(10*time.Second)) {
		t.Error("two plans of one seed differ")
	}
	other := l
	other.Seed = 6
	if slices.Equal(plan, other.Plan(10*time.Second)) {
		t.Error("plans of two seeds are equal")
	}
	faster := l
	faster.PerSecond = 100
	for i, a := range faster.Plan(10 * time.Second)[:len(plan)] {
		if a.Octets != plan[i].Octets || (a.At-plan[i].At/2).Abs() > 2 {
			t.Fatalf("at twice the rate transfer %d has %d bytes at %s, not %d at %s", i, a.Octets, a.At, plan[i].Octets, plan[i].At/2)
		}
	}
	drained := l
	drained.Drain = 4 * time.Second
	short := drained.Plan(10 * time.Second)
	if !slices.Equal(short, plan[:len(short)]) || short[len(short)-1].At >= 6*time.Second || plan[len(short)].At < 6*time.Second {
		t.Error("a plan with 4 s at its end is not the beginning of that without, up to 6 s")
	}
}

func TestReadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "no point",
		"# only a remark":     "no point",
		"10":                  "line 1: 1 values",
		"10 0.5\nx 1":         `line 2: "x" is no number`,
		"10 0.5\n9 1":         "line 2: 9 bytes follow 10",
		"10 0.5\n20 0.4":      "line 2: the share falls from 0.5 to 0.4",
		"10 0.5\n20 0.9":      "the last share is 0.9, not 1",
		"10 50\n20 100":       "line 1: the share 50 is outside 0 to 1",
		"0 1":                 "no size is above 0",
		"NaN 1":               `"NaN" is no number`,
		"10, 0.5\n\n 20\t1.5": "line 3: the share 1.5",
	} {
		if _, err := Read("f", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestRateLoadsTheLink(t *testing.T) {
	// 60 % of 100 Mbit/s, full frames of 1448 octets that are 1538 on the wire.
	p := Path{There: 10 * time.Millisecond, Back: 5 * time.Millisecond, Rate: 100e6, Payload: 1448, Headers: 90}
	if got := p.PerSecond(0.6, 144_800) * 100 * 1538 * 8; math.Abs(got-60e6) > 1 {
		t.Errorf("the load is %.0f bit/s on the wire, not 60 Mbit/s", got)
	}
	// 25 ms of delays, and 101 frames for one octet more than 100 hold: 153,891 octets.
	if got, want := p.Ideal(144_801), 25*time.Millisecond+12_311_280*time.Nanosecond; (got - want).Abs() > 2 {
		t.Errorf("the least time is %s, not %s", got, want)
	}
}

func TestALoadSaysWhatItIs(t *testing.T) {
	web := Published()[0]
	web.Most = 2_000_000
	for want, l := range map[string]Load{
		"web-search up to 2 MB, mean 636 kB, 3.2/s": {Sizes: web, PerSecond: 3.2},
		"500 bytes, mean 500 bytes, 0.25/s":         {Sizes: Fixed(500), PerSecond: 0.25},
		"data-mining, mean 12.7 MB, 10/s":           {Sizes: Published()[1], PerSecond: 10},
	} {
		if got := l.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
