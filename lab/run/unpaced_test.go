// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"weir/kernel/congestion"
	"weir/kernel/sysctl"
	"weir/kernel/testutil"
	"weir/lab/scenario"
	"weir/lab/traffic"
	"weir/lab/traffic/iperf"
)

func TestHostsWhoseFlowsBeginByDefault(t *testing.T) {
	late := traffic.Flow{Kind: traffic.Bulk, From: "a", To: "b", Generator: "iperf3", Congestion: "cubic"}
	with := func(change func(f *traffic.Flow)) traffic.Flow {
		f := late
		change(&f)
		return f
	}
	other := func(from, to string) traffic.Flow {
		return traffic.Flow{Kind: traffic.Bulk, From: from, To: to, Generator: "weir"}
	}
	for _, c := range []struct {
		name      string
		flows     []traffic.Flow
		generator string
		sysctls   map[string]string // of host a
		want      []string
	}{
		{name: "iperf3 sends under a named control", flows: []traffic.Flow{late}, want: []string{"a"}},
		{name: "the run's generator is iperf3", flows: []traffic.Flow{with(func(f *traffic.Flow) { f.Generator = "" })}, generator: "iperf3", want: []string{"a"}},
		{name: "the run's generator is not", flows: []traffic.Flow{with(func(f *traffic.Flow) { f.Generator = "" })}, generator: "weir"},
		{name: "the flow overrides the run's generator", flows: []traffic.Flow{with(func(f *traffic.Flow) { f.Generator = "weir" })}, generator: "iperf3"},
		{name: "it leaves its control to the default", flows: []traffic.Flow{with(func(f *traffic.Flow) { f.Congestion = "" })}},
		{name: "datagrams", flows: []traffic.Flow{with(func(f *traffic.Flow) { f.Kind = traffic.Datagram })}},
		{name: "another flow from there uses the default", flows: []traffic.Flow{late, other("a", "c")}},
		{name: "another flow to there uses the default", flows: []traffic.Flow{late, other("c", "a")}},
		{name: "a flow elsewhere uses the default", flows: []traffic.Flow{late, other("c", "b")}, want: []string{"a"}},
		{name: "datagrams from there have no control", flows: []traffic.Flow{late, {Kind: traffic.Datagram, From: "a", To: "b"}}, want: []string{"a"}},
		{name: "both directions, each host once", flows: []traffic.Flow{with(func(f *traffic.Flow) { f.From, f.To = "b", "a" }), late, late}, want: []string{"a", "b"}},
		{name: "the answers are the data", flows: []traffic.Flow{with(func(f *traffic.Flow) { f.Kind, f.Request, f.Response = traffic.Request, 1, 2 })}, want: []string{"b"}},
		{name: "the scenario sets the default", flows: []traffic.Flow{late}, sysctls: map[string]string{"net.ipv4.tcp_congestion_control": "reno"}},
		{name: "the scenario sets the default, with slashes", flows: []traffic.Flow{late}, sysctls: map[string]string{"net/ipv4/tcp_congestion_control": "reno"}},
		{name: "the scenario sets something else", flows: []traffic.Flow{late}, sysctls: map[string]string{"net.ipv4.tcp_sack": "0"}, want: []string{"a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cell := &scenario.Cell{Nodes: []scenario.Node{{Name: "a", Sysctls: c.sysctls}, {Name: "b"}, {Name: "c"}}}
			for _, f := range c.flows { // in whichever phase
				cell.Phases = append(cell.Phases, scenario.Phase{Flows: []traffic.Flow{f}})
			}
			if got := lateHosts(cell, c.generator); !slices.Equal(got, c.want) {
				t.Errorf("hosts %v, want %v", got, c.want)
			}
		})
	}
}

// watching is iperf3, and keeps the default congestion control of each flow's sender.
type watching struct {
	iperf.Generator
	mutex    sync.Mutex
	defaults map[string]string // by flow; guarded by mutex
}

func (w *watching) Run(ctx context.Context, f traffic.Flow, from, to traffic.Endpoint) (traffic.Result, error) {
	control, err := sysctl.Get(from.Namespace, defaultControl)
	if err != nil {
		return traffic.Result{}, err
	}
	w.mutex.Lock()
	w.defaults[f.Name] = control
	w.mutex.Unlock()
	return w.Generator.Run(ctx, f, from, to)
}

// The default is another one only where nobody uses it, and iperf3 gets its congestion control
// either way.
func TestHostsOfIperfBeginUnpaced(t *testing.T) {
	testutil.NeedRoot(t)
	testutil.Command(t, "iperf3")
	testutil.Need(t, "cubic", congestion.Check("cubic"))
	machine, err := sysctl.Get(testutil.Namespace(t, "fresh"), defaultControl)
	if err != nil {
		t.Fatal(err)
	}
	const text = `
version: 1
title: a test
repetitions: 1
hosts: [a, b]
links: [{name: path, ends: [a, b], plain: true}]
phases:
  - name: only
    duration: 1s
    flows:
      - {name: named, kind: bulk, from: a, to: b, congestion: cubic, rate: 8Mbit}
      - {name: other, kind: bulk, from: b, to: a, congestion: "%s", rate: 8Mbit}
`
	for _, c := range []struct {
		description, other string
		want               string // the default on both hosts
		told               bool   // in the manifest
	}{
		{"both flows name theirs", "reno", unpacedControl, true},
		{"one uses the default", "", machine, false},
	} {
		t.Run(c.description, func(t *testing.T) {
			t.Setenv("WEIR_RUN_DIR", t.TempDir())
			generator := &watching{defaults: map[string]string{}}
			outcome, err := Execute(t.Context(), parse(t, fmt.Sprintf(text, c.other)),
				Options{Carrier: &fakeCarrier{}, Generator: generator, Gate: fakeGate{}})
			if err != nil {
				t.Fatal(err)
			}
			for _, flow := range outcome.Results[0].Phases[0].Flows {
				if got := generator.defaults[flow.Flow.Name]; got != c.want {
					t.Errorf("flow %s: its sender's default is %q, want %q", flow.Flow.Name, got, c.want)
				}
				if len(flow.Streams) != 1 || flow.Streams[0].ReceivedBytes == 0 {
					t.Errorf("flow %s moved nothing: %+v", flow.Flow.Name, flow.Streams)
				}
			}
			if _, told := outcome.Mechanisms["congestion default"]; told != c.told {
				t.Errorf("mechanisms %v", outcome.Mechanisms)
			}
		})
	}
}
