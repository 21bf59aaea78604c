// SPDX-License-Identifier: Apache-2.0

package rfc2544_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"weir/internal/fault"
	"weir/kernel/testutil"
	"weir/record"
	"weir/tester/rfc2544"
)

func run(t *testing.T, c rfc2544.Config, d rfc2544.Bench) rfc2544.Report {
	t.Helper()
	report, err := rfc2544.Run(context.Background(), c, d)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// On a busy machine one CPU may sustain a rate that all of them together do not.
func TestARateThatIsSpreadInVainComesFromOneCPU(t *testing.T) {
	d := &device{capacity: 1e9, generator: 3e6, spread: 1.2e6}
	c := quick(rfc2544.Throughput)
	c.Speed = 0
	if got := run(t, c, d).Throughput[0]; !got.Measured() || got.Rate < 0.99*d.generator || got.Limit != rfc2544.ByTester {
		t.Errorf("%+v; want the rate of one CPU", got)
	}
}

func TestThroughputIsTheCapacityWithinTheResolution(t *testing.T) {
	random := testutil.Rand(t)
	for range 200 {
		capacity := 1000 + random.Float64()*14e6
		d := &device{capacity: capacity}
		c := quick(rfc2544.Throughput)
		got := run(t, c, d).Throughput[0]
		if got.Limit != rfc2544.ByDevice {
			t.Fatalf("capacity %.0f: limit %q", capacity, got.Limit)
		}
		// A trial of whole frames cannot see less than a frame of loss.
		slack := 1 / c.SearchTime.Seconds()
		if got.Rate > capacity+slack || got.Rate < capacity*(1-2*c.Resolution)-slack {
			t.Fatalf("capacity %.0f: throughput %.0f after %d trials", capacity, got.Rate, len(d.trials))
		}
		if len(d.trials) > 60 {
			t.Errorf("capacity %.0f took %d trials", capacity, len(d.trials))
		}
		if got.Fails <= got.Rate {
			t.Errorf("the failing rate %.0f is not above the throughput %.0f", got.Fails, got.Rate)
		}
		if !slices.ContainsFunc(d.trials, func(trial rfc2544.Trial) bool { return trial.Duration == c.FinalTime && trial.Rate == got.Rate }) {
			t.Errorf("the result %.0f was not decided by a long trial", got.Rate)
		}
	}
}

func TestThroughputOfAFastDeviceIsTheLine(t *testing.T) {
	got := run(t, quick(rfc2544.Throughput), &device{capacity: 1e9}).Throughput[0]
	// RFC 2544 appendix B's formula at 10 Gbit/s.
	if got.Limit != rfc2544.ByLine || int(got.Rate) != 14880952 || got.Rate != got.Theoretical {
		t.Errorf("throughput %.0f by %s of %.0f, want the line's 14880952", got.Rate, got.Limit, got.Theoretical)
	}
}

func TestThroughputAboveWhatTheTesterOffersIsALowerBound(t *testing.T) {
	for _, speed := range []float64{10e9, 0} {
		c := quick(rfc2544.Throughput)
		c.Speed = 0
		if speed > 0 {
			c.Speed = 10e9
		}
		got := run(t, c, &device{capacity: 1e9, generator: 3e6}).Throughput[0]
		if got.Limit != rfc2544.ByTester || got.Rate > 3e6 || got.Rate < 2.9e6 {
			t.Errorf("speed %.0f: throughput %.0f by %s, want about 3e6 by the tester", speed, got.Rate, got.Limit)
		}
	}
}

func TestThroughputSurvivesANoisyDevice(t *testing.T) {
	random := testutil.Rand(t)
	for range 50 {
		d := &device{capacity: 2e6, random: random, hiccup: 0.1}
		c := quick(rfc2544.Throughput)
		c.Verify = 4 // only five hiccups in a row, probability 1e-5, cause a wrong verdict
		got := run(t, c, d).Throughput[0]
		if got.Rate > 2e6+2 || got.Rate < 2e6*0.9 {
			t.Errorf("capacity 2e6 with hiccups: throughput %.0f", got.Rate)
		}
	}
}

func TestInvalidTrialsNeverEnterAResult(t *testing.T) {
	random := testutil.Rand(t)
	for range 50 {
		d := &device{capacity: 2e6, random: random, stolen: 0.3}
		c := quick(rfc2544.Throughput)
		c.Attempts = 20
		report := run(t, c, d)
		if got := report.Throughput[0]; got.Rate > 2e6+2 || got.Rate < 2e6*0.95 {
			t.Errorf("capacity 2e6 with stolen trials that look clean: throughput %.0f", got.Rate)
		}
		for _, a := range report.Attempts {
			if a.Valid && a.Outcome.Steal > c.MaxSteal {
				t.Fatalf("a stolen trial counts as valid: %+v", a)
			}
		}
	}
}

func TestATestbedThatCannotIsSaidSoAndMeasuresNothing(t *testing.T) {
	for name, d := range map[string]*device{
		"late generator": {capacity: 2e6, late: true},
		"stolen":         {capacity: 2e6, random: testutil.Rand(t), stolen: 1},
		"busy":           {capacity: 2e6, others: 0.5},
	} {
		t.Run(name, func(t *testing.T) {
			report, err := rfc2544.Run(context.Background(), quick(rfc2544.Tests[:5]...), d)
			if fault.Of(err) != fault.Testbed {
				t.Errorf("%s: status %d of %v, want %d", name, fault.Of(err), err, fault.Testbed)
			}
			if err == nil || !strings.Contains(err.Error(), "the testbed cannot support this") {
				t.Errorf("%s: %v does not say that the testbed cannot", name, err)
			}
			if r := report.Throughput[0]; r.Measured() || r.Rate != 0 {
				t.Errorf("%s: an unfit testbed gave a throughput of %.0f", name, r.Rate)
			}
		})
	}
}

func TestADeviceThatForwardsNothingHasNoThroughput(t *testing.T) {
	report, err := rfc2544.Run(context.Background(), quick(rfc2544.Throughput), &device{capacity: 0})
	if fault.Of(err) != fault.Testbed || report.Throughput[0].Measured() {
		t.Errorf("a dead device: %v, %+v", err, report.Throughput[0])
	}
}

func TestACancelledBenchmarkKeepsWhatItHas(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	c := quick(rfc2544.Throughput)
	c.Sizes = []int{64, 128, 256}
	d := &device{pps: func(size int) float64 {
		if size == 256 {
			cancel()
		}
		return 1e6
	}}
	report, err := rfc2544.Run(ctx, c, d)
	if err != nil || !report.Stopped || len(report.Throughput) != 2 {
		t.Errorf("error %v, stopped %v, %d results; want no error, stopped, 2 results", err, report.Stopped, len(report.Throughput))
	}
	missing := 0
	for _, v := range report.Bundle().Verdicts {
		if v.Outcome == record.NotMeasured && v.Labels["frame size"] == "256" {
			missing++
		}
	}
	if missing != 1 {
		t.Errorf("the verdicts of a stopped benchmark are %+v; want that of 256 octets not measured", report.Bundle().Verdicts)
	}
}

func TestWrongConfigurationsAreUsageErrors(t *testing.T) {
	for name, change := range map[string]func(*rfc2544.Config){
		"unknown test":         func(c *rfc2544.Config) { c.Tests = []rfc2544.Test{"speed"} },
		"no test":              func(c *rfc2544.Config) { c.Tests = nil },
		"stamp does not fit":   func(c *rfc2544.Config) { c.Sizes = []int{60} },
		"IPv6 stamp":           func(c *rfc2544.Config) { c.IPv6 = true },
		"reset without a hook": func(c *rfc2544.Config) { c.Tests = []rfc2544.Test{rfc2544.Reset} },
	} {
		t.Run(name, func(t *testing.T) {
			c := quick(rfc2544.Throughput)
			change(&c)
			_, err := rfc2544.Run(context.Background(), c, &device{})
			var f *fault.Error
			if !errors.As(err, &f) || f.Status != fault.Usage || f.Try == "" {
				t.Errorf("%s: %v is no usage error with advice", name, err)
			}
		})
	}
}

func TestAFloodThatOverloadsIsEnoughToStartFrom(t *testing.T) {
	// The tester cannot sustain the line's rate, but sends faster than the device forwards.
	d := &device{capacity: 1e6, generator: 4e6}
	got := run(t, quick(rfc2544.Throughput), d).Throughput[0]
	if got.Limit != rfc2544.ByDevice || got.Rate > 1e6+2 || got.Rate < 0.95e6 {
		t.Errorf("throughput %.0f by %s, want the device's 1e6", got.Rate, got.Limit)
	}
	if len(d.trials) > 25 {
		t.Errorf("%d trials, want a short search around the forwarding rate", len(d.trials))
	}
}

func TestNoRateAboveTheUsersIsOffered(t *testing.T) {
	c := quick(rfc2544.Throughput, rfc2544.FrameLoss)
	c.Speed, c.HighestOffers = 0, 5000
	d := &device{capacity: 1e9, generator: 1e7}
	got := run(t, c, d).Throughput[0]
	if got.Limit != rfc2544.ByTester || got.Rate != 5000 {
		t.Errorf("throughput %.0f by %s, want 5000 by the tester", got.Rate, got.Limit)
	}
	for _, trial := range d.trials {
		if trial.Rate == 0 || trial.Rate > 5000 {
			t.Errorf("a trial offered %.0f frame/s (0: as fast as possible)", trial.Rate)
		}
	}
}
