// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const benchmark = `version: 1
title: a benchmark
hosts: [a, b]
routers: [r]
links:
  - {name: in, ends: [a, r], plain: true}
  - {name: out, ends: [r, b], plain: true}
phases:
  - duration: 60s
    procedure: {kind: rfc2544, from: a, to: b}
expect:
  - {name: they agree, metric: throughput_spread, max: 10%}
`

func TestProcedureHasTheDefaultsOfTheReference(t *testing.T) {
	for _, test := range []struct {
		text string
		want Procedure
	}{
		{"{kind: rfc2544, from: a, to: b}", Procedure{Name: "rfc2544", Kind: RFC2544, From: "a", To: "b", Family: 4, FrameSize: 128,
			Tests: []string{"throughput"}, Trial: 2 * time.Second, Search: 2 * time.Second, Resolution: 0.01, Repeat: 2}},
		{"{kind: rfc2544, name: dut, from: a, to: b, family: 6, frame_size: 84, tests: [back-to-back, latency], trial: 1s, search: 200ms, resolution: 2%, acceptable_loss: 0.1%, repeat: 0}",
			Procedure{Name: "dut", Kind: RFC2544, From: "a", To: "b", Family: 6, FrameSize: 84,
				Tests: []string{"throughput", "latency", "back-to-back"}, Trial: time.Second, Search: 200 * time.Millisecond, Resolution: 0.02, Acceptable: 0.001}},
	} {
		s, err := Parse("f.yaml", []byte(strings.Replace(benchmark, "{kind: rfc2544, from: a, to: b}", test.text, 1)))
		if err != nil {
			t.Fatal(err)
		}
		cells, err := s.Expand()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&test.want, cells[0].Phases[0].Procedure); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.text, diff)
		}
		if s.Expect[0].Subject != test.want.Name {
			t.Errorf("the expectation is about %q, want %q", s.Expect[0].Subject, test.want.Name)
		}
	}
}

func TestMistakesOfProcedures(t *testing.T) {
	for _, test := range []struct{ more, want string }{
		{", kind: rfc9004", `"kind"`},
		{", tests: [speed]", `tests[0]: unknown test "speed"`},
		{", family: 6, frame_size: 64", "64 bytes is outside 84 to 1518"},
		{", trial: 2m", "trial: 2m0s is outside 50ms to the phase's 1m0s"},
		{", search: 1ms", "search: 1ms is outside 50ms"},
		{", resolution: 90%", "resolution: 0.9 is outside 0.1% to 50%"},
		{", repeat: 100", "repeat: 100 is outside 0 to 50"},
	} {
		_, err := Parse("f.yaml", []byte(strings.Replace(benchmark, ", to: b", ", to: b"+test.more, 1)))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.more, err, test.want)
		}
	}
	_, err := Parse("f.yaml", []byte(strings.Replace(benchmark, "expect:", "    flows: [{kind: bulk, from: a, to: b}]\nexpect:", 1)))
	if err == nil || !strings.Contains(err.Error(), "the phase has flows or streams too") {
		t.Errorf("flows beside a procedure: %v", err)
	}
}
