// SPDX-License-Identifier: Apache-2.0

package lab_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"weir/internal/child"
	"weir/internal/fault"
	"weir/kernel/probe"
	"weir/kernel/testutil"
	"weir/lab"
	"weir/lab/fidelity"
	"weir/lab/link/emulator"
	"weir/lab/run"
	"weir/lab/scenario"
	"weir/record"
	"weir/record/bundle"
	"weir/record/summary"
)

func TestMain(m *testing.M) {
	child.Main(child.Parts{emulator.PartName: emulator.Part})
	os.Exit(m.Run())
}

// lenient runs the whole gate and accepts its findings: a test runs on machines with other load
// too.
type lenient struct{ run.Fidelity }

func (g lenient) Calibrate(ctx context.Context, bench *run.Bench) ([]fidelity.Calibration, error) {
	all, err := g.Fidelity.Calibrate(ctx, bench)
	for i := range all {
		all[i].Problems = nil
	}
	return all, err
}

func (g lenient) Watch(ctx context.Context, bench *run.Bench) (run.Watch, error) {
	watch, err := g.Fidelity.Watch(ctx, bench)
	return accepting{watch}, err
}

type accepting struct{ run.Watch }

func (a accepting) Judge(ctx context.Context, phases []run.PhaseResult) (fidelity.Judgement, error) {
	judgement, err := a.Watch.Judge(ctx, phases)
	judgement.Valid, judgement.Reasons = true, nil
	return judgement, err
}

// measure runs a scenario without the gate's tolerances.
func measure(t *testing.T, name, generator string) *record.Bundle {
	t.Helper()
	testutil.NeedRoot(t)
	testutil.Need(t, "AF_XDP", probe.AFXDP())
	t.Setenv("WEIR_RUN_DIR", t.TempDir())
	s, err := scenario.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	s.Repetitions = 1
	choice, err := lab.Carrier("auto", s)
	if err != nil {
		t.Fatal(err)
	}
	traffic, err := lab.Generator(generator)
	if err != nil {
		t.Fatal(err)
	}
	b, err := lab.Experiment{Scenario: s, Command: []string{"test"}, Options: run.Options{
		Carrier: choice.Carrier, CarrierReason: choice.Reason, Generator: traffic, Gate: lenient{}, Seed: 1,
	}}.Measure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestTinyIsMeasuredAndReadBack(t *testing.T) {
	b := measure(t, "tiny", "weir")
	dir := filepath.Join(t.TempDir(), "bundle")
	if err := bundle.Write(dir, b); err != nil {
		t.Fatal(err)
	}
	b, err := bundle.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	rows := summary.Rows(b.Samples)
	goodput, found := summary.Find(rows, record.Labels{}, scenario.Aggregate, scenario.Goodput)
	// Data that arrive during the settle time count in the next second if the reader ran late: a
	// fifth more at most.
	if !found || goodput.Estimate.N != 1 || goodput.Estimate.Mean <= 0 || goodput.Estimate.Mean > 1.2*100e6 {
		t.Errorf("goodput %+v of a link of 100 Mbit/s", goodput)
	}
	rtt, found := summary.Find(rows, record.Labels{}, "bulk", scenario.MinRTT)
	if !found || rtt.Estimate.Mean < 0.010 {
		t.Errorf("least round-trip time %+v of a path of 10 ms", rtt)
	}
	if loss, found := summary.Find(rows, record.Labels{}, "path forward", scenario.LinkLoss); !found || loss.Estimate.N != 1 || loss.Estimate.Mean != 0 {
		t.Errorf("loss of a link without any: %+v", loss)
	}
	if len(b.Points) == 0 || len(b.Distributions) == 0 || len(b.Figures) == 0 || len(b.Tables) == 0 || len(b.Verdicts) != 1 {
		t.Errorf("%d points, %d distributions, %d figures, %d tables, %d verdicts", len(b.Points), len(b.Distributions), len(b.Figures), len(b.Tables), len(b.Verdicts))
	}
	m := b.Manifest
	if m.Kind != "lab" || m.Name != "tiny" || m.Source == "" || m.Machine.Kernel == "" || m.Mechanisms["link"] == "" || m.Seed != 1 || m.Finished.IsZero() {
		t.Errorf("manifest %+v", m)
	}
}

func TestUnknownNamesAreUsageErrors(t *testing.T) {
	s, err := scenario.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lab.Carrier("netm", s); fault.Of(err) != fault.Usage {
		t.Errorf("carrier: %v", err)
	}
	if _, err := lab.Generator("iperf"); fault.Of(err) != fault.Usage {
		t.Errorf("generator: %v", err)
	}
}

func TestHolds(t *testing.T) {
	b := &record.Bundle{Verdicts: []record.Verdict{{Outcome: record.Holds}}}
	if err := lab.Holds(b); err != nil {
		t.Error(err)
	}
	for _, outcome := range []record.Outcome{record.Fails, record.NotMeasured} {
		b.Verdicts = append(b.Verdicts[:1], record.Verdict{Outcome: outcome})
		if lab.Holds(b) == nil {
			t.Errorf("a verdict that %s is said to hold", outcome)
		}
	}
}
