// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/fault"
	"weir/internal/units"
	"weir/kernel/instance"
	"weir/kernel/netns"
	"weir/kernel/testutil"
	"weir/lab/fidelity"
	"weir/lab/link"
	"weir/lab/scenario"
	"weir/lab/traffic"
)

const small = `
version: 1
title: a test
repetitions: 3
attempts: 2
sweep:
  loss: ["0%", "1%", "2%"]
hosts: [a, b]
links:
  - {name: path, ends: [a, b], rate: 10Mbit, delay: 1ms, loss: "${loss}"}
phases:
  - {name: only, duration: 1s, flows: [{name: bulk, kind: bulk, from: a, to: b}]}
`

func parse(t *testing.T, text string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// fakeCarrier moves no frames: these tests need none.
type fakeCarrier struct {
	closed int
	seen   []string // namespaces that existed
}

func (*fakeCarrier) Mechanism() string      { return "fake" }
func (*fakeCarrier) Check(link.Cable) error { return nil }
func (c *fakeCarrier) Carry(_ context.Context, ns *netns.Namespace, cables []link.Cable) (link.Carrying, error) {
	own, err := netns.List(strings.TrimSuffix(ns.Name, "_links"))
	if err != nil {
		return nil, err
	}
	c.seen = append(c.seen, own...)
	return &fakeCarrying{carrier: c, cables: cables}, nil
}

type fakeCarrying struct {
	carrier *fakeCarrier
	cables  []link.Cable
	asked   uint64
}

// Status counts one more frame with each call.
func (c *fakeCarrying) Status() ([]link.Status, error) {
	c.asked++
	var all []link.Status
	for _, cable := range c.cables {
		all = append(all, link.Status{Cable: cable.Name, Forward: link.Counters{Received: 100 * c.asked}})
	}
	return all, nil
}
func (*fakeCarrying) Begin() error         { return nil }
func (*fakeCarrying) Mechanism() string    { return "fake" }
func (c *fakeCarrying) CPU() time.Duration { return 0 }
func (c *fakeCarrying) Close() error       { c.carrier.closed++; return nil }

// fakeGenerator returns at once, after reporting its flow.
type fakeGenerator struct {
	run func(ctx context.Context, f traffic.Flow) (traffic.Result, error)
}

func (fakeGenerator) Name() string             { return "fake" }
func (fakeGenerator) Check(traffic.Flow) error { return nil }
func (g fakeGenerator) Run(ctx context.Context, f traffic.Flow, _, _ traffic.Endpoint) (traffic.Result, error) {
	if g.run != nil {
		return g.run(ctx, f)
	}
	return traffic.Result{Flow: f, Streams: []traffic.Stream{{ReceivedBytes: 1}}}, nil
}

// fakeGate returns the results that the test sets.
type fakeGate struct {
	calibrate func(bench *Bench) []string
	judge     func(bench *Bench) []string
}

func (g fakeGate) Calibrate(_ context.Context, bench *Bench) ([]fidelity.Calibration, error) {
	c := fidelity.Calibration{Link: "path"}
	if g.calibrate != nil {
		c.Problems = g.calibrate(bench)
	}
	return []fidelity.Calibration{c}, nil
}

func (g fakeGate) Watch(_ context.Context, bench *Bench) (Watch, error) {
	return fakeWatch{g, bench}, nil
}

func (fakeGate) Begin(*Bench) error { return nil }

func (fakeGate) Capacity(context.Context, link.Carrier, *scenario.Cell) (string, error) {
	return "this machine carries 5 Mbit/s", nil
}

type fakeWatch struct {
	gate  fakeGate
	bench *Bench
}

func (fakeWatch) Settled() error { return nil }

func (w fakeWatch) Judge(context.Context, []PhaseResult) (fidelity.Judgement, error) {
	j := fidelity.Judgement{Valid: true}
	if w.gate.judge != nil {
		j.Reasons = w.gate.judge(w.bench)
		j.Valid = len(j.Reasons) == 0
	}
	return j, nil
}

// execute runs a scenario with fakes and checks that nothing is left.
func execute(t *testing.T, ctx context.Context, text string, options Options) (*Outcome, error) {
	t.Helper()
	testutil.NeedRoot(t)
	t.Setenv("WEIR_RUN_DIR", t.TempDir())
	carrier := &fakeCarrier{}
	options.Carrier = carrier
	if options.Generator == nil {
		options.Generator = fakeGenerator{}
	}
	if options.Gate == nil {
		options.Gate = fakeGate{}
	}
	outcome, err := Execute(ctx, parse(t, text), options)
	if outcome != nil && len(outcome.Results) > carrier.closed {
		t.Errorf("%d runs, %d carriers closed", len(outcome.Results), carrier.closed)
	}
	for _, name := range carrier.seen {
		if _, err := os.Stat(netns.Path(name)); !os.IsNotExist(err) {
			t.Errorf("left namespace %s: %v", name, err)
		}
	}
	if entries, _ := filepath.Glob(filepath.Join(instance.Root(), "[^.]*")); len(entries) > 0 {
		t.Errorf("left %v", entries)
	}
	return outcome, err
}

// runs names results as "loss/repetition".
func runs(results []Result) (names []string) {
	for _, r := range results {
		names = append(names, r.Cell.Labels["loss"]+"/"+string(rune('0'+r.Repetition)))
	}
	return names
}

func TestEveryRepetitionOfEveryCellRunsOnce(t *testing.T) {
	var told []Event
	outcome, err := execute(t, t.Context(), small, Options{Seed: 7, Report: func(e Event) { told = append(told, e) }})
	if err != nil {
		t.Fatal(err)
	}
	names := runs(outcome.Results)
	slices.Sort(names)
	if want := "0%/1 0%/2 0%/3 1%/1 1%/2 1%/3 2%/1 2%/2 2%/3"; strings.Join(names, " ") != want {
		t.Errorf("ran %v", names)
	}
	for _, r := range outcome.Results {
		if !r.Valid || len(r.Phases) != 1 || r.Links[0].Forward.Received != 100 {
			t.Errorf("%s: valid %v (%s), %d phases, links %+v", CellName(r.Cell), r.Valid, r.Reason(), len(r.Phases), r.Links)
		}
	}
	if last := told[len(told)-1]; last.Done != 8 || last.Total != 9 || last.Stage != Valid {
		t.Errorf("the last event is %+v", last)
	}
}

func TestTheSeedDecidesTheOrderAndTheLosses(t *testing.T) {
	cells, err := parse(t, small).Expand()
	if err != nil {
		t.Fatal(err)
	}
	first, again, other := order(30, 3, 1), order(30, 3, 1), order(30, 3, 2)
	if !slices.Equal(first, again) || slices.Equal(first, other) {
		t.Error("the order does not follow the seed alone")
	}
	for block := range 3 {
		seen := map[int]bool{}
		for _, j := range first[block*30 : block*30+30] {
			seen[j.cell] = j.repetition == block+1
		}
		if len(seen) != 30 || slices.Contains([]bool{seen[0], seen[29]}, false) {
			t.Errorf("block %d is not one repetition of every cell", block)
		}
	}
	seed := func(j job, attempt int) uint64 { return seeded(&cells[0], 1, j, attempt).Links[0].Forward.Seed }
	one, same := seed(job{0, 1}, 1), seed(job{0, 1}, 1)
	if one != same || one == seed(job{0, 2}, 1) || one == seed(job{0, 1}, 2) || one == seed(job{1, 1}, 1) {
		t.Error("losses do not follow seed, repetition and attempt")
	}
}

func TestAnInvalidRunIsRepeatedAndKeptAsEvidence(t *testing.T) {
	failures := 0
	gate := fakeGate{judge: func(bench *Bench) []string {
		if bench.Cell.Labels["loss"] == "1%" && failures == 0 {
			failures++
			return []string{"a disturbance"}
		}
		return nil
	}}
	outcome, err := execute(t, t.Context(), small, Options{Gate: gate})
	if err != nil {
		t.Fatal(err)
	}
	var attempts []Result
	for _, r := range outcome.Results {
		if r.Cell.Labels["loss"] == "1%" && r.Repetition == 1 {
			attempts = append(attempts, r)
		}
	}
	if len(outcome.Results) != 10 || len(attempts) != 2 || attempts[0].Valid || attempts[0].Reason() != "a disturbance" || !attempts[1].Valid || attempts[1].Attempt != 2 {
		t.Errorf("%d results, attempts %+v", len(outcome.Results), attempts)
	}
}

func TestACellThatIsNotCarriedEndsTheRunOrIsLeftOut(t *testing.T) {
	gate := fakeGate{calibrate: func(bench *Bench) []string {
		if bench.Cell.Labels["loss"] == "2%" {
			return []string{"the rate is 1 Mbit/s, asked 10 Mbit/s"}
		}
		return nil
	}}
	outcome, err := execute(t, t.Context(), small, Options{Gate: gate})
	if fault.Of(err) != fault.Testbed || !strings.Contains(err.Error(), "loss=2%") || !strings.Contains(err.Error(), "asked 10 Mbit/s") || !strings.Contains(fault.Advice(err), "carries 5 Mbit/s") {
		t.Errorf("error %v with status %d and advice %q", err, fault.Of(err), fault.Advice(err))
	}
	if outcome == nil || len(outcome.Unfit) != 1 || len(outcome.Unfit[0].Reasons) != 2 {
		t.Fatalf("outcome %+v", outcome)
	}
	outcome, err = execute(t, t.Context(), small, Options{Gate: gate, KeepGoing: true})
	valid := 0
	for _, r := range outcome.Results {
		if r.Valid {
			valid++
		}
	}
	if fault.Of(err) != fault.Testbed || valid != 6 || len(outcome.Unfit) != 1 {
		t.Errorf("keep going: %v, %d valid runs, unfit %+v", err, valid, outcome.Unfit)
	}
}

func TestFlowsAloneRunInTheSameOrderAndPassTheSameGate(t *testing.T) {
	text := strings.Replace(small, "duration: 1s, flows: [", "duration: 1s, solo: true, flows: [{name: other, kind: bulk, from: b, to: a}, ", 1)
	failures := 0
	gate := fakeGate{judge: func(bench *Bench) []string {
		if bench.Cell.Alone() == "other" && failures == 0 {
			failures++
			return []string{"a disturbance"}
		}
		return nil
	}}
	var told []Event
	outcome, err := execute(t, t.Context(), text, Options{Seed: 7, Gate: gate, Report: func(e Event) { told = append(told, e) }})
	if err != nil {
		t.Fatal(err)
	}
	seen, blocks := map[string]int{}, map[int]int{}
	for i, r := range outcome.Results {
		name := r.Cell.Alone()
		flows := r.Phases[0].Flows
		if name != "" && (len(flows) != 1 || flows[0].Flow.Name != name) || name == "" && len(flows) != 2 {
			t.Errorf("%s has the flows %+v", CellName(r.Cell), flows)
		}
		if !r.Valid && name != "other" {
			t.Errorf("%s is not valid: %s", CellName(r.Cell), r.Reason())
		}
		if r.Valid {
			seen[name]++
			blocks[r.Repetition]++
		}
		if i > 0 && r.Repetition < outcome.Results[i-1].Repetition {
			t.Errorf("repetition %d ran behind %d", r.Repetition, outcome.Results[i-1].Repetition)
		}
	}
	if len(outcome.Results) != 28 || seen[""] != 9 || seen["bulk"] != 9 || seen["other"] != 9 || blocks[1] != 9 || blocks[3] != 9 {
		t.Errorf("%d results, valid by flow alone %v, by repetition %v", len(outcome.Results), seen, blocks)
	}
	if len(outcome.Cells) != 3 || outcome.Cells[0].Alone() != "" {
		t.Errorf("%d cells, the first one %v", len(outcome.Cells), outcome.Cells[0].Labels)
	}
	last := told[len(told)-1]
	if last.Total != 27 || last.Done != 26 || !slices.ContainsFunc(told, func(e Event) bool { return e.Cell != nil && CellName(e.Cell) == "loss=1% solo=bulk" }) {
		t.Errorf("the last event is %+v", last)
	}
}

func TestABrokenFlowIsNoResult(t *testing.T) {
	generator := fakeGenerator{run: func(_ context.Context, f traffic.Flow) (traffic.Result, error) {
		return traffic.Result{Flow: f}, errors.New("connection refused")
	}}
	outcome, err := execute(t, t.Context(), small, Options{Generator: generator})
	if fault.Of(err) != fault.Testbed || outcome.Results[0].Valid || !strings.Contains(outcome.Results[0].Reason(), "flow bulk broke off: connection refused") {
		t.Errorf("%v, result %+v", err, outcome.Results[0])
	}
}

func TestStoppingKeepsWhatWasMeasured(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	count := 0
	generator := fakeGenerator{run: func(ctx context.Context, f traffic.Flow) (traffic.Result, error) {
		if count++; count == 3 {
			cancel()
			return traffic.Result{Flow: f}, ctx.Err()
		}
		return traffic.Result{Flow: f, Streams: []traffic.Stream{{}}}, nil
	}}
	outcome, err := execute(t, ctx, small, Options{Generator: generator})
	if err != nil || !outcome.Stopped || len(outcome.Results) != 2 {
		t.Errorf("%v, stopped %v, %d results", err, outcome.Stopped, len(outcome.Results))
	}
}

// ticking is a clock that advances by a second with each reading.
func ticking() func() time.Time {
	now := time.Unix(0, 0)
	return func() time.Time { now = now.Add(time.Second); return now }
}

// After the time for the choice no other value is tried, and a run that fails later neither ends
// the study nor discards its results.
func TestFallbackIsFinalAfterItsTime(t *testing.T) {
	text := strings.NewReplacer("rate: 10Mbit", `rate: "${rate}"`, "repetitions: 3", "repetitions: 1").Replace(small) +
		"fallback: {parameter: rate, values: [40Mbit, 20Mbit, 10Mbit], within: 2s}\n"
	for name, test := range map[string]struct {
		bad     func(rate units.BitRate, run int) bool
		rate    string
		note    string
		invalid bool
	}{
		"no value held":      {func(rate units.BitRate, _ int) bool { return rate > 10e6 }, "10Mbit", "rate=20Mbit was not tried", false},
		"a later run failed": {func(rate units.BitRate, run int) bool { return rate < 40e6 || run > 4 }, "40Mbit", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			runs := 0
			gate := fakeGate{calibrate: func(bench *Bench) []string {
				if runs++; test.bad(bench.Cell.Links[0].Forward.Rate, runs) {
					return []string{"too fast"}
				}
				return nil
			}}
			outcome, err := execute(t, t.Context(), text, Options{Gate: gate, clock: ticking()})
			if (err != nil) != test.invalid || outcome.Chosen["rate"] != test.rate {
				t.Errorf("chosen %v, %v", outcome.Chosen, err)
			}
			if notes := strings.Join(outcome.Notes, "\n"); !strings.Contains(notes, test.note) || strings.Contains(notes, "given up") {
				t.Errorf("notes:\n%s", notes)
			}
		})
	}
}

func TestTimeLimitEndsTheStudy(t *testing.T) {
	text := strings.Replace(small, "repetitions: 3", "repetitions: 2", 1)
	for limit, want := range map[string]string{"4s": "", "1ms": "before a valid run of"} {
		outcome, err := execute(t, t.Context(), text+"time_limit: "+limit+"\n", Options{clock: ticking()})
		notes := strings.Join(outcome.Notes, "\n")
		if !strings.Contains(notes, "the time limit of "+limit+" ended the study after") {
			t.Errorf("%s: %d results, notes %q", limit, len(outcome.Results), notes)
		}
		if (err != nil) != (want != "") || err != nil && (fault.Of(err) != fault.Testbed || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", limit, err)
		}
	}
}

func TestFallbackTakesTheFirstValueThatHolds(t *testing.T) {
	text := strings.Replace(small, "rate: 10Mbit", `rate: "${rate}"`, 1) + "fallback: {parameter: rate, values: [40Mbit, 20Mbit, 10Mbit]}\n"
	after := 0
	gate := fakeGate{calibrate: func(bench *Bench) []string {
		switch rate := bench.Cell.Links[0].Forward.Rate; {
		case rate == 40e6:
			return []string{"too fast"}
		case rate == 20e6: // holds in the trial and the first two runs
			if after++; after > 3 {
				return []string{"too fast in the long run"}
			}
		}
		return nil
	}}
	outcome, err := execute(t, t.Context(), text, Options{Gate: gate})
	if err != nil {
		t.Fatal(err)
	}
	if outcome.Chosen["rate"] != "10Mbit" || len(outcome.Results) != 9 || len(outcome.Unfit) != 0 {
		t.Errorf("chosen %v, %d results, unfit %v", outcome.Chosen, len(outcome.Results), outcome.Unfit)
	}
	for _, r := range outcome.Results {
		if r.Cell.Links[0].Forward.Rate != 10e6 || r.Cell.Labels["rate"] != "10Mbit" {
			t.Fatalf("a result at %s: %v", r.Cell.Links[0].Forward.Rate, r.Cell.Labels)
		}
	}
	if notes := strings.Join(outcome.Notes, "\n"); !strings.Contains(notes, "rate=40Mbit does not hold") || !strings.Contains(notes, "rate=20Mbit was given up") {
		t.Errorf("notes:\n%s", notes)
	}
}

func TestTwoTakeTurns(t *testing.T) {
	t.Setenv("WEIR_RUN_DIR", t.TempDir())
	release, err := lockMachine(t.Context(), func() { t.Error("waited for nobody") })
	if err != nil {
		t.Fatal(err)
	}
	waiting, got := make(chan struct{}), make(chan error)
	go func() {
		second, err := lockMachine(t.Context(), func() { close(waiting) })
		if err == nil {
			second()
		}
		got <- err
	}()
	<-waiting
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := lockMachine(ctx, func() {}); !errors.Is(err, context.Canceled) {
		t.Errorf("a stopped wait gives %v", err)
	}
	release()
	if err := <-got; err != nil {
		t.Error(err)
	}
}
