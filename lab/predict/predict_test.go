// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"math"
	"testing"
	"time"
)

// near reports whether got is within a relative error of want.
func near(got, want, tolerance float64) bool {
	return math.Abs(got-want) <= tolerance*math.Abs(want)
}

func TestMathis(t *testing.T) {
	for _, c := range []struct {
		name string
		path Path
		c    float64
		want float64 // bit/s, by long-hand: MSS·8·C / (RTT·√p)
	}{
		// 1460·8 = 11680; 11680 · 1.224745 / (0.1 · 0.1) = 1430502
		{"1 % at 100 ms", Path{1460, 100 * time.Millisecond, 0.01}, EveryACK, 1430502},
		// 1448·8 = 11584; 11584 · 0.866025 / (0.0004 · 0.1) = 250801000
		{"1 % at 0.4 ms", Path{1448, 400 * time.Microsecond, 0.01}, DelayedACKs, 250.801e6},
		// 11584 · 1 / (0.02 · 0.01) = 57920000
		{"1e-4 at 20 ms", Path{1448, 20 * time.Millisecond, 1e-4}, 1, 57.92e6},
		// p = 1: a window of C segments
		{"everything lost", Path{1000, time.Second, 1}, 1, 8000},
	} {
		got := Mathis(c.path, c.c)
		if !near(got.Rate, c.want, 1e-5) || got.Regime != WindowReduction || got.Model != "Mathis" {
			t.Errorf("%s: %+v, want %.0f bit/s", c.name, got, c.want)
		}
	}
	low, high := MathisRange(Path{1448, time.Millisecond, 0.01})
	if !near(high.Rate/low.Rate, math.Sqrt2, 1e-12) {
		t.Errorf("range %g to %g: the ratio is not the square root of 2", low.Rate, high.Rate)
	}
}

func TestPFTK(t *testing.T) {
	for _, c := range []struct {
		name    string
		path    Path
		options PFTKOptions
		want    float64
		regime  Regime
	}{
		// 0.1·√(0.02/3) = 0.008164966; 0.4·3·√0.00375·0.01·1.0032 = 0.000737199; 11680 /
		// 0.008902165 = 1312040
		{"RFC 5348 at 1 %", Path{1460, 100 * time.Millisecond, 0.01}, PFTKOptions{}, 1312040, WindowReduction},
		// 0.1·√(0.2/3) = 0.025819889; 0.4·3·√0.0375·0.1·1.32 = 0.030674256; 11680 / 0.056494145 =
		// 206747
		{"timeouts at 10 %", Path{1460, 100 * time.Millisecond, 0.1}, PFTKOptions{}, 206747, Timeouts},
		// 0.1·√(0.04/3) = 0.011547005; 1·3·√0.0075·0.01·1.0032 = 0.002606391; 11680 / 0.014153396 =
		// 825244
		{"delayed ACKs and an RTO of a second", Path{1460, 100 * time.Millisecond, 0.01}, PFTKOptions{SegmentsPerACK: 2, RTO: time.Second}, 825244, WindowReduction},
		// a window of 10 segments: 10 · 11680 / 0.1
		{"limited by its window", Path{1460, 100 * time.Millisecond, 0.01}, PFTKOptions{Window: 10}, 1168000, Limited},
		{"a window and no loss", Path{1460, 100 * time.Millisecond, 0}, PFTKOptions{Window: 10}, 1168000, Limited},
	} {
		got := PFTK(c.path, c.options)
		if !near(got.Rate, c.want, 1e-5) || got.Regime != c.regime {
			t.Errorf("%s: %+v, want %.0f bit/s, %s", c.name, got, c.want, c.regime)
		}
	}
}

// TestCUBIC compares mean windows with tables 1 and 2 of RFC 8312 section 5.1 (the same function as
// RFC 9438's), which are rounded to whole segments.
func TestCUBIC(t *testing.T) {
	for _, c := range []struct {
		rtt    time.Duration
		p      float64
		window float64
		regime Regime
	}{
		{100 * time.Millisecond, 1e-2, 12, RenoFriendly},
		{100 * time.Millisecond, 1e-3, 38, RenoFriendly},
		{100 * time.Millisecond, 1e-4, 187, CubicGrowth},
		{100 * time.Millisecond, 1e-5, 1054, CubicGrowth},
		{100 * time.Millisecond, 1e-6, 5926, CubicGrowth},
		{100 * time.Millisecond, 1e-7, 33325, CubicGrowth},
		{100 * time.Millisecond, 1e-8, 187400, CubicGrowth},
		{10 * time.Millisecond, 1e-4, 120, RenoFriendly},
		{10 * time.Millisecond, 1e-5, 379, RenoFriendly},
		{10 * time.Millisecond, 1e-6, 1200, RenoFriendly},
		{10 * time.Millisecond, 1e-7, 5926, CubicGrowth},
		{10 * time.Millisecond, 1e-8, 33325, CubicGrowth},
	} {
		got := CUBIC(Path{1000, c.rtt, c.p})
		window := got.Rate * c.rtt.Seconds() / 8000
		tolerance := 0.001
		if c.regime == RenoFriendly {
			tolerance = 0.021 // the tables round √1.5 to 1.2
		}
		if math.Abs(window-c.window) > 1+c.window*tolerance || got.Regime != c.regime {
			t.Errorf("RTT %s, p %g: a window of %.1f, %s; the table has %g, %s", c.rtt, c.p, window, got.Regime, c.window, c.regime)
		}
	}
}

// TestModelsAgree: in the Reno-friendly region CUBIC equals Mathis with an ACK per segment, and
// PFTK does too without timeouts.
func TestModelsAgree(t *testing.T) {
	p := Path{1448, 20 * time.Millisecond, 1e-3}
	want := Mathis(p, EveryACK).Rate
	if got := CUBIC(p); !near(got.Rate, want, 1e-12) {
		t.Errorf("CUBIC %g, Mathis %g", got.Rate, want)
	}
	if got := PFTK(p, PFTKOptions{RTO: time.Nanosecond}); !near(got.Rate, want, 1e-6) {
		t.Errorf("PFTK without timeouts %g, Mathis %g", got.Rate, want)
	}
}

func TestLimits(t *testing.T) {
	models := map[string]func(Path) Prediction{
		"Mathis": func(p Path) Prediction { return Mathis(p, 1) },
		"PFTK":   func(p Path) Prediction { return PFTK(p, PFTKOptions{}) },
		"CUBIC":  CUBIC,
	}
	for name, model := range models {
		if got := model(Path{1448, time.Millisecond, 0}); !math.IsInf(got.Rate, 1) || got.Regime != NoLoss {
			t.Errorf("%s without loss: %+v, want +Inf", name, got)
		}
		before := 0.0
		for p := 1.0; p > 1e-12; p /= 3 {
			got := model(Path{1448, time.Millisecond, p})
			if got.Rate <= before || math.IsInf(got.Rate, 0) {
				t.Errorf("%s: the rate %g at p %g is not above %g, that of more loss", name, got.Rate, p, before)
			}
			before = got.Rate
		}
		for _, bad := range []Path{{0, time.Second, 0.1}, {1448, 0, 0.1}, {1448, time.Second, -1}, {1448, time.Second, 1.1}, {1448, time.Second, math.NaN()}} {
			if got := model(bad); !math.IsNaN(got.Rate) {
				t.Errorf("%s of %+v: %+v, want NaN", name, bad, got)
			}
		}
	}
	free := Mathis(Path{1448, time.Millisecond, 0}, 1).Within(941.5e6)
	if free.Rate != 941.5e6 || free.Regime != Limited {
		t.Errorf("no loss on a link: %+v", free)
	}
	if got := Mathis(Path{1448, time.Second, 0.1}, 1).Within(1e9); got.Regime != WindowReduction {
		t.Errorf("below the link's rate: %+v", got)
	}
}

func TestAbsent(t *testing.T) {
	flow := Flow{Path: Path{1448, time.Millisecond, 0.01}, Congestion: "cubic", Segments: 1000, Events: 10}
	with := func(change func(*Flow)) Flow {
		changed := flow
		change(&changed)
		return changed
	}
	for _, c := range []struct {
		flow        Flow
		others, own Absence // of Mathis and PFTK, of CUBIC
	}{
		{flow, "", ""},
		{with(func(f *Flow) { f.Congestion = "reno" }), "", NotCUBIC},
		{with(func(f *Flow) { f.Congestion = "bbr" }), NotLossBased, NotLossBased},
		{with(func(f *Flow) { f.Congestion = "bbr3" }), NotLossBased, NotLossBased},
		{with(func(f *Flow) { f.Congestion = "dctcp" }), NoEquation, NoEquation},
		{with(func(f *Flow) { f.Congestion = "" }), UnknownControl, UnknownControl},
		{with(func(f *Flow) { f.Segments, f.Events = 0, 0 }), NotCounted, NotCounted},
		{with(func(f *Flow) { f.Events = 0 }), Lossless, Lossless},
		{with(func(f *Flow) { f.Marked = 1 }), Marks, Marks},
		{with(func(f *Flow) { f.RTT = 0 }), NoRTT, NoRTT},
	} {
		if a, b, d := c.flow.Absent(ModelMathis), c.flow.Absent(ModelPFTK), c.flow.Absent(ModelCUBIC); a != c.others || b != c.others || d != c.own {
			t.Errorf("%+v: Mathis %q, PFTK %q, CUBIC %q; want %q and %q", c.flow, a, b, d, c.others, c.own)
		}
	}
}

func TestLossEventRate(t *testing.T) {
	for _, c := range []struct {
		events, segments uint64
		want             float64
	}{{0, 0, 0}, {5, 0, 0}, {0, 100, 0}, {1, 100, 0.01}, {7, 5, 1}} {
		if got := LossEventRate(c.events, c.segments); got != c.want {
			t.Errorf("LossEventRate(%d, %d) = %g, want %g", c.events, c.segments, got, c.want)
		}
	}
}

func TestLinkGoodput(t *testing.T) {
	// 1448 bytes of payload in 1538 on the wire
	if got := LinkGoodput(1e9, 1448, 1500); !near(got, 941.4824e6, 1e-6) {
		t.Errorf("1 Gbit/s carries %g", got)
	}
}
