// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/cc"
	"weir/class"
	"weir/internal/fault"
	"weir/internal/units"
	"weir/limit"
	"weir/limit/scoped"
)

// What only a shadow limit counted was not done.
func TestTheSummaryOfARun(t *testing.T) {
	counted := limit.Counters{}
	counted.Bytes, counted.Marked = 1000, 7
	outcome := scoped.Outcome{Elapsed: time.Second, Counted: map[limit.Direction]limit.Counters{limit.Egress: counted}}
	for want, a := range map[string]*app{"7 packets would have been marked": {format: "text"}, `"format": "weir-run/1"`: {format: "json"}} {
		var stdout, stderr strings.Builder
		a.stdout, a.stderr = &stdout, &stderr
		if err := a.summarize(outcome, nil, true, ""); err != nil || !strings.Contains(stderr.String(), want) || stdout.Len() != 0 {
			t.Errorf("%v; printed %q and %q, want %q", err, stdout.String(), stderr.String(), want)
		}
	}
}

// A class is told of with what was marked, with or without limits.
func TestTheSummaryOfARunInAClass(t *testing.T) {
	given := &classed{Class: "lbe", DSCP: class.LowEffort, Counts: class.Counts{Packets: 12, Octets: 3000, Marked: 11, Failed: 1},
		Downloads: &cc.Received{Connections: 2, NoTimestamps: 1, Slowdowns: 3, Reductions: 4, Steps: 10, WindowSum: 20480, DelaySum: 30_000}}
	for want, a := range map[string]*app{
		"class lbe: sent 2.93 KiB in 12 packets; 11 marked with DSCP 1, 1 could not be marked":                                                     {format: "text"},
		"; downloads of 2 connections held at 2 KiB and 3ms of queue on average, 3 slowdowns, 4 reductions by loss, 1 without timestamps not held": {format: "text"},
		`"marked": 11`: {format: "json"}, `"class": "lbe"`: {format: "json"}, `"dscp": 1`: {format: "json"},
	} {
		var stdout, stderr strings.Builder
		a.stdout, a.stderr = &stdout, &stderr
		if err := a.summarize(scoped.Outcome{Elapsed: time.Second}, given, false, ""); err != nil || !strings.Contains(stderr.String(), want) {
			t.Errorf("%v; printed %q, want %q", err, stderr.String(), want)
		}
	}
}

// A command under a limit is no policy, and is shown all the same.
func TestStatusShowsRuns(t *testing.T) {
	counted := limit.Counters{}
	counted.Bytes, counted.Marked = 1000, 7
	one := scoped.Running{PID: 4711, Command: []string{"rsync", "-a"}, Limits: map[limit.Direction]units.BitRate{limit.Egress: 1e6, limit.Ingress: 2e6},
		Counted: map[limit.Direction]*limit.Counters{limit.Egress: &counted}}
	want := [][]string{
		{"rsync -a", "4711", "", "egress", "1 Mbit/s", "1000 B", "7", "0", "0", "enforced"},
		{"rsync -a", "4711", "", "ingress", "2 Mbit/s", "", "", "", "", "enforced"},
		{"scp", "4712", "lbe", "", "", "", "", "", "", "enforced"},
	}
	if diff := cmp.Diff(want, runsTable([]scoped.Running{one, {PID: 4712, Command: []string{"scp"}, Class: "lbe"}}).Rows); diff != "" {
		t.Error(diff)
	}
}

func TestARunIsOfACommandOrAProcess(t *testing.T) {
	for _, args := range [][]string{{"run", "--limit", "1Mbit"}, {"run", "--limit", "1Mbit", "--pid", "1", "true"}, {"run", "--limit", "1Mbit", "--pid", "1", "--user", "root"}} {
		var stdout, stderr strings.Builder
		if status := run(t.Context(), args, &stdout, &stderr); status != fault.Usage {
			t.Errorf("%v: status %d, %s", args, status, stderr.String())
		}
	}
}
