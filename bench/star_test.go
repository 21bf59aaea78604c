// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"cmp"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"weir/kernel/testutil"
	"weir/lab"
	"weir/lab/link/carry"
	"weir/lab/run"
	"weir/lab/scenario"
)

// BenchmarkStar runs the scenario "star", a hundred hosts at one router and two seconds of traffic,
// under the gate of real measurements, and reports its time: the whole run (run-s), its stages
// (measure-s includes the removal), and the CPU time of this process and of its helpers (cpu-s,
// helpers-cpu-s). Rejected attempts count in all but run-s. WEIR_STAR_CARRIER names the links'
// carrier, and WEIR_STAR another scenario.
func BenchmarkStar(b *testing.B) {
	testutil.NeedRoot(b)
	b.Setenv("WEIR_RUN_DIR", b.TempDir())
	s, err := scenario.Load(cmp.Or(os.Getenv("WEIR_STAR"), "star"))
	if err != nil {
		b.Fatal(err)
	}
	name := os.Getenv("WEIR_STAR_CARRIER")
	if name == "" {
		name = carry.Auto
	}
	choice, err := lab.Carrier(name, s)
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("carried by %s", choice.Carrier.Mechanism())
	generator, err := lab.Generator("weir")
	if err != nil {
		b.Fatal(err)
	}
	stages := stopwatch{b: b, spent: map[string]time.Duration{}}
	own, helpers := usedBy(syscall.RUSAGE_SELF), usedBy(syscall.RUSAGE_CHILDREN)
	for range b.N {
		stages.enter("begin-s")
		outcome, err := run.Execute(b.Context(), s, run.Options{Carrier: choice.Carrier, Generator: generator, Gate: run.Fidelity{},
			Seed: 1, Share: true, Stderr: os.Stderr, Report: func(e run.Event) { stages.enter(stageNames[e.Stage]) }})
		stages.enter("")
		if unfit := (*run.Unfit)(nil); errors.As(err, &unfit) {
			b.Skip(err)
		}
		if err != nil {
			b.Fatal(err)
		}
		stages.spent["run-s"] += outcome.Results[len(outcome.Results)-1].Took
	}
	stages.spent["cpu-s"] = usedBy(syscall.RUSAGE_SELF) - own
	stages.spent["helpers-cpu-s"] = usedBy(syscall.RUSAGE_CHILDREN) - helpers
	for stage, time := range stages.spent {
		b.ReportMetric(time.Seconds()/float64(b.N), stage)
	}
}

var stageNames = map[run.Stage]string{run.Building: "build-s", run.Calibrating: "calibrate-s", run.Loading: "measure-s"}

// stopwatch sums the time spent in stages.
type stopwatch struct {
	b     *testing.B
	spent map[string]time.Duration
	stage string
	since time.Time
}

// enter ends the previous stage and begins another; "" is none.
func (w *stopwatch) enter(stage string) {
	if w.stage != "" {
		took := time.Since(w.since)
		w.spent[w.stage] += took
		w.b.Logf("%s: %.3f", w.stage, took.Seconds())
	}
	w.stage, w.since = stage, time.Now()
}

// usedBy returns the CPU time of this process, or of its children that have ended.
func usedBy(whose int) time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(whose, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
