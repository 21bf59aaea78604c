// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"weir/internal/child"
	"weir/internal/fault"
	"weir/kernel/cgroup"
	"weir/kernel/instance"
	"weir/kernel/netns"
	"weir/kernel/probe"
	"weir/kernel/testutil"
	"weir/lab/limits"
	"weir/lab/link/emulator"
	"weir/lab/scenario"
	"weir/lab/traffic"
	"weir/lab/traffic/native"
)

func TestMain(m *testing.M) {
	child.Main(child.Parts{cgroup.SocketsPart: cgroup.ServeSockets, emulator.PartName: emulator.Part})
	if acted, err := act(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	} else if acted {
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// limited is two hosts with a limit of 20 Mbit/s between them: flow "in" is under it and "out" is
// not.
const limited = `
version: 1
title: a test
hosts: [a, b]
links: [{name: path, ends: [a, b], plain: true}]
limits:
  - {name: cap, host: %s, direction: %s, mechanism: %s, rate: 20Mbit%s}
phases:
  - name: only
    duration: 500ms
    flows:
      - {name: in, kind: bulk, from: a, to: b, congestion: cubic, bytes: 500kB}
      - {name: out, kind: bulk, from: a, to: b, congestion: cubic, bytes: 500kB, start: 250ms}
`

// measure runs the cell's phase with real traffic and no gate.
func measure(t *testing.T, text string) PhaseResult {
	t.Helper()
	testutil.NeedRoot(t)
	t.Setenv("WEIR_RUN_DIR", t.TempDir())
	cells, err := parse(t, text).Expand()
	if err != nil {
		t.Fatal(err)
	}
	if err := limits.Check(cells[0].Limits); err != nil {
		t.Fatal(err)
	}
	lab, err := instance.New("test", instance.Run)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
		nothingLeft(t, lab.ID)
	}()
	bench, err := Raise(t.Context(), lab, &cells[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	generator := native.New()
	result, err := countedPhase(t.Context(), bench, bench.prepare(t.Context(), cells[0].Phases[0], generator), generator)
	if err != nil {
		t.Error(err)
	}
	if err := bench.Close(); err != nil {
		t.Error(err)
	}
	for _, flow := range result.Flows {
		if flow.Failed != "" {
			t.Errorf("flow %s: %s", flow.Flow.Name, flow.Failed)
		}
	}
	return result
}

// nothingLeft fails if a lab left anything behind.
func nothingLeft(t *testing.T, id string) {
	t.Helper()
	if left, err := netns.List("weir-" + id); err != nil || len(left) > 0 {
		t.Errorf("namespaces left: %v, %v", left, err)
	}
	if root, err := cgroup.Root(); err == nil {
		if left, _ := filepath.Glob(filepath.Join(root, "*"+id+"*")); len(left) > 0 {
			t.Errorf("cgroups left: %v", left)
		}
	}
}

func received(result PhaseResult, flow string) (octets uint64) {
	for _, f := range result.Flows {
		for _, s := range f.Streams {
			if f.Flow.Name == flow {
				octets += s.ReceivedBytes
			}
		}
	}
	return octets
}

// A BPF limit charges its flows with their headers, and no others, at either end.
func TestLimitOfACgroupCountsItsFlowsAlone(t *testing.T) {
	testutil.NeedRoot(t)
	testutil.Need(t, "cgroup v2", probe.CgroupV2())
	for _, c := range []struct{ host, direction, mechanism string }{
		{"a", "egress", "police"}, {"a", "egress", "classic"}, {"a", "egress", "shadow"}, {"b", "ingress", "police"},
	} {
		t.Run(c.mechanism+" "+c.direction, func(t *testing.T) {
			result := measure(t, fmt.Sprintf(limited, c.host, c.direction, c.mechanism, ", flows: [in]"))
			if len(result.Limits) != 1 {
				t.Fatalf("limits: %+v", result.Limits)
			}
			counted, in, out := result.Limits[0].Bytes, received(result, "in"), received(result, "out")
			if in == 0 || out == 0 {
				t.Fatalf("received: %d bytes under the limit, %d beside it", in, out)
			}
			least := in
			if c.mechanism == "shadow" {
				least = 1 // allowed packets count as passed
			}
			if counted < least || counted >= in+out {
				t.Errorf("the limit counted %d bytes of flows with %d under it and %d beside it", counted, in, out)
			}
		})
	}
}

// A queue counts all packets that the device sends.
func TestLimitOfADeviceCountsEverything(t *testing.T) {
	testutil.NeedRoot(t)
	for _, c := range []struct{ mechanism, leaf string }{{"htb", "pfifo"}, {"htb-fq_codel", "fq_codel"}} {
		t.Run(c.mechanism, func(t *testing.T) {
			testutil.Need(t, "htb", probe.Qdisc("htb"))
			testutil.Need(t, c.leaf, probe.Qdisc(c.leaf))
			result := measure(t, fmt.Sprintf(limited, "a", "egress", c.mechanism, ""))
			if len(result.Limits) != 1 {
				t.Fatalf("limits: %+v", result.Limits)
			}
			if counted, sent := result.Limits[0].Bytes, received(result, "in")+received(result, "out"); sent == 0 || counted < sent {
				t.Errorf("the queue counted %d bytes of %d", counted, sent)
			}
		})
	}
}

// A mechanism that the kernel lacks ends the run before anything is built. With KeepGoing its cells
// are left out.
func TestMissingMechanism(t *testing.T) {
	testutil.NeedRoot(t)
	testutil.Need(t, "htb", probe.Qdisc("htb"))
	if probe.Qdisc("fq_codel") == nil { // fq_codel is available, so no note is expected
		if err := limits.Check([]scenario.Limit{{Name: "cap", Host: "a", Mechanism: scenario.HTBFqCodel, Rate: 1e6}}); err != nil {
			t.Error(err)
		}
		return
	}
	text := strings.Replace(small, "phases:", "limits: [{name: cap, host: a, mechanism: \"${mechanism}\", rate: 1Mbit}]\nphases:", 1)
	text = strings.Replace(text, "sweep:", "sweep:\n  mechanism: [htb, htb-fq_codel]", 1)
	outcome, err := execute(t, context.Background(), text, Options{})
	if fault.Of(err) != fault.Testbed || !strings.Contains(fault.Advice(err), "NET_SCH_FQ_CODEL") || len(outcome.Results) > 0 {
		t.Errorf("%d results and %v; advice %q", len(outcome.Results), err, fault.Advice(err))
	}
	outcome, err = execute(t, context.Background(), text, Options{KeepGoing: true})
	if err != nil || len(outcome.Cells) != 3 || len(outcome.Results) != 9 || len(outcome.Notes) != 3 {
		t.Errorf("with --keep-going: %v, %d cells, %d results, notes %q", err, len(outcome.Cells), len(outcome.Results), outcome.Notes)
	}
	for _, cell := range outcome.Cells {
		if cell.Limits[0].Mechanism != scenario.HTB {
			t.Errorf("left: %s", CellName(&cell))
		}
	}
}

// A congestion control that the kernel lacks is loaded for the time of the run.
func TestCongestionControlOfARun(t *testing.T) {
	testutil.NeedRoot(t)
	gone := func() bool {
		now, err := probe.CongestionControls()
		if err != nil {
			t.Fatal(err)
		}
		return !slices.Contains(now, "weir_dctcp")
	}
	testutil.Eventually(t, 30*time.Second, "the end of a weir_dctcp that is not this test's (weir cc list says whose)", gone)
	testutil.Need(t, "struct_ops", errors.Join(probe.BTF(), probe.ProgramType(ebpf.StructOps)))
	text := strings.Replace(small, "from: a, to: b", "from: a, to: b, congestion: weir_dctcp", 1)
	outcome, err := execute(t, context.Background(), text, Options{})
	if err != nil || len(outcome.Results) != 9 || outcome.Mechanisms["congestion weir_dctcp"] == "" {
		t.Fatalf("%v, %d results, %v", err, len(outcome.Results), outcome.Mechanisms)
	}
	testutil.Eventually(t, 5*time.Second, "the end of weir_dctcp", gone)
}

// A limit above the machine's rate cannot be measured: every attempt is invalid with that reason.
func TestLimitAboveWhatTheMachineCarries(t *testing.T) {
	testutil.NeedRoot(t)
	testutil.Need(t, "cgroup v2", probe.CgroupV2())
	text := strings.Replace(fmt.Sprintf(limited, "a", "egress", "police", ""), "20Mbit", "400Gbit", 1)
	got := []traffic.Flow{}
	slow := fakeGenerator{func(_ context.Context, f traffic.Flow) (traffic.Result, error) {
		got = append(got, f)
		return traffic.Result{Flow: f, Goodput: 1e9}, nil
	}}
	t.Setenv("WEIR_RUN_DIR", t.TempDir())
	outcome, err := Execute(context.Background(), parse(t, text), Options{Generator: slow, Carrier: &fakeCarrier{}, Gate: fakeGate{}})
	if fault.Of(err) != fault.Testbed || len(outcome.Unfit) != 1 || !strings.Contains(outcome.Unfit[0].Error(), "400 Gbit/s") {
		t.Errorf("got %v, %+v", err, outcome.Unfit)
	}
	for _, f := range got {
		if f.Name != "headroom" || f.From != "a" || f.To != "b" {
			t.Errorf("flow %s from %s to %s ran", f.Name, f.From, f.To)
		}
	}
}
