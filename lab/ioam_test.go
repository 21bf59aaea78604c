// SPDX-License-Identifier: Apache-2.0

package lab_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"weir/kernel/probe"
	"weir/kernel/testutil"
	"weir/lab"
	"weir/lab/fidelity"
	"weir/lab/run"
	"weir/lab/scenario"
	"weir/record"
	"weir/record/summary"
)

// domain is a domain of two nodes over an emulated link, with every kind of IPv6 packet. Some
// packets with options are at first longer than the MTU.
const domain = `version: 1
title: a domain
hosts: [a, b]
routers:
  - name: r
    ioam:
      node: 1
      interfaces: {in: {}, path: {id: 2, roles: [ingress, egress], reserve: true}}
      namespaces: {5: {}}
      encapsulate: [{to: b, namespace: 5, trace: [node, timestamps, delay], edge: [sequence, timestamps]}]
  - name: s
    ioam:
      node: 2
      interfaces: {path: {id: 3, roles: [ingress, egress]}, out: {id: 4}}
      namespaces: {5: {remove: true}}
links:
  - {name: in, ends: [a, r], delay: 1ms}
  - {name: path, ends: [r, s], delay: 20ms}
  - {name: out, ends: [s, b], delay: 1ms}
phases:
  - name: load
    duration: 1s
    flows:
      - {name: datagrams, kind: udp, family: 6, from: a, to: b, rate: 500kbit, payload: 1000}
      - {name: stream, kind: bulk, family: 6, from: a, to: b, rate: 500kbit}
      - {name: calls, kind: request, family: 6, from: a, to: b}
  - name: program
    duration: 1s
    flows:
      - {name: ping, kind: command, family: 6, from: a, to: b, run: "ping -6 -c 1 -W 9 b"}
`

// strict runs the whole gate, and accepts only those findings that a slow machine causes.
type strict struct {
	lenient
	t *testing.T
}

type strictWatch struct {
	run.Watch
	t *testing.T
}

func (g strict) Watch(ctx context.Context, bench *run.Bench) (run.Watch, error) {
	watch, err := g.Fidelity.Watch(ctx, bench)
	return strictWatch{watch, g.t}, err
}

var slow = regexp.MustCompile(`stalled|late|CPU|virtual machines|stopped without a cause|overloaded|clock`)

func (w strictWatch) Judge(ctx context.Context, phases []run.PhaseResult) (fidelity.Judgement, error) {
	judgement, err := w.Watch.Judge(ctx, phases)
	for _, reason := range judgement.Reasons {
		if !slow.MatchString(reason) {
			w.t.Errorf("the gate says of a domain: %s", reason)
		}
	}
	judgement.Valid, judgement.Reasons = true, nil
	return judgement, err
}

func TestADomainIsMeasuredAndTheGateKnowsOfIt(t *testing.T) {
	testutil.NeedRoot(t)
	testutil.Need(t, "AF_XDP", probe.AFXDP())
	testutil.Need(t, "tcx", probe.DeviceHook())
	t.Setenv("WEIR_RUN_DIR", t.TempDir())
	file := filepath.Join(t.TempDir(), "domain.yaml")
	if err := os.WriteFile(file, []byte(domain), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := scenario.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	choice, err := lab.Carrier("auto", s)
	if err != nil {
		t.Fatal(err)
	}
	generator, err := lab.Generator("weir")
	if err != nil {
		t.Fatal(err)
	}
	b, err := lab.Experiment{Scenario: s, Command: []string{"test"}, Options: run.Options{
		Carrier: choice.Carrier, Generator: generator, Gate: strict{t: t}, Seed: 1,
	}}.Measure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rows := summary.Rows(b.Samples)
	figure := func(subject, metric string) float64 {
		t.Helper()
		row, found := summary.Find(rows, record.Labels{scenario.PhaseLabel: "load"}, subject, metric)
		if !found || row.Estimate.N != 1 {
			t.Errorf("%s of %s was not measured", metric, subject)
		}
		return row.Estimate.Mean
	}
	if put, taken := figure("r", scenario.IOAMEncapsulated), figure("s", scenario.IOAMRemoved); put == 0 || put != taken {
		t.Errorf("%g packets got options, and %g lost them again", put, taken)
	}
	if lost, dropped := figure(scenario.Domain, scenario.IOAMLost), figure("s", scenario.IOAMDropped); lost != 0 || dropped != 0 {
		t.Errorf("%g lost, %g dropped", lost, dropped)
	}
	if hop := figure("r", scenario.IOAMHopMin); hop < 0.019 {
		t.Errorf("a link of 20 ms took %g s by the traces", hop)
	}
	if n, unread := figure("s", scenario.IOAMTraces), figure("s", scenario.IOAMUnread); n+unread != figure("s", scenario.IOAMRemoved) {
		t.Errorf("%g traces were read and %g were not", n, unread)
	}
	if lost, delay := figure("s", scenario.IOAMEdgeLost), figure("s", scenario.IOAMEdgeDelay); lost != 0 || delay < 0.019 {
		t.Errorf("by the edges %g were lost, and the delay is %g s", lost, delay)
	}
	for _, flow := range []string{"datagrams", "stream"} {
		if figure(flow, scenario.Goodput) == 0 {
			t.Errorf("nothing of %s came", flow)
		}
	}
	if figure("calls", scenario.ExchangesPerSecond) == 0 {
		t.Error("no call was answered")
	}
}
