// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/internal/direction"
	"weir/internal/dscp"
	"weir/internal/fault"
	"weir/internal/units"
	"weir/modules/cc"
	"weir/modules/class"
	"weir/modules/limit/police"
	"weir/modules/limit/scoped"
)

// What only a shadow limit counted was not done.
func TestTheSummaryOfARun(t *testing.T) {
	counted := police.Counters{}
	counted.Bytes, counted.Marked = 1000, 7
	outcome := scoped.Outcome{Elapsed: time.Second, Counted: map[direction.Direction]police.Counters{direction.Egress: counted}}
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
	given := &classed{Class: "lbe", DSCP: dscp.LowEffort, Counts: class.Counts{Packets: 12, Octets: 3000, Marked: 11, Failed: 1},
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
	counted := police.Counters{}
	counted.Bytes, counted.Marked = 1000, 7
	one := scoped.Running{PID: 4711, Command: []string{"rsync", "-a"}, Limits: map[direction.Direction]units.BitRate{direction.Egress: 1e6, direction.Ingress: 2e6},
		Counted: map[direction.Direction]*police.Counters{direction.Egress: &counted}}
	want := [][]string{
		{"rsync -a", "4711", "", "egress", "1 Mbit/s", "1000 B", "7", "0", "0", "1", "2 KiB", "3.00 ms", "enforced"},
		{"rsync -a", "4711", "", "ingress", "2 Mbit/s", "", "", "", "", "", "", "", "enforced"},
		{"scp", "4712", "lbe", "", "", "", "", "", "", "", "", "", "enforced"},
		{"wget", "4713", "lbe", "", "", "", "", "", "", "2", "", "", "enforced"},
	}
	received := cc.Received{Connections: 1, Steps: 10, WindowSum: 20480, DelaySum: 30_000}
	runs := []running{{one, &received}, {Running: scoped.Running{PID: 4712, Command: []string{"scp"}, Class: "lbe"}},
		{scoped.Running{PID: 4713, Command: []string{"wget"}, Class: "lbe"}, &cc.Received{Connections: 2}}}
	if diff := cmp.Diff(want, runsTable(runs).Rows); diff != "" {
		t.Error(diff)
	}
}

// What is said of downloads is what was done.
func TestDownloadsAreToldAsTheyWere(t *testing.T) {
	for want, d := range map[string]cc.Received{
		"": {},
		"; downloads of 2 connections not held, for want of TCP's timestamps":                                      {NoTimestamps: 2},
		"; downloads of 1 connection held, on which nothing came":                                                  {Connections: 1},
		"; downloads of 1 connection held, on which nothing came, 1 without timestamps not held":                   {Connections: 1, NoTimestamps: 1},
		"; downloads of 1 connection held at 2 KiB and 3ms of queue on average, 1 slowdown, 1 reduction by loss":   {Connections: 1, Slowdowns: 1, Reductions: 1, Steps: 1, WindowSum: 2048, DelaySum: 3000},
		"; downloads of 1 connection held at 2 KiB and 3ms of queue on average, 0 slowdowns, 2 reductions by loss": {Connections: 1, Reductions: 2, Steps: 1, WindowSum: 2048, DelaySum: 3000},
	} {
		if got := downloaded(d); got != want {
			t.Errorf("%+v: said %q, want %q", d, got, want)
		}
	}
}

// The advice keeps what was given.
func TestAMissingCommandIsAdvisedByWhatWasGiven(t *testing.T) {
	for want, args := range map[string][]string{
		"weir run --limit 100Mbit -- ":              {"run"},
		"weir run --class lbe -- ":                  {"run", "--class", "lbe"},
		"weir run --ingress 5Mbit --class AF21 -- ": {"run", "--class", "AF21", "--ingress", "5Mbit"},
	} {
		var stdout, stderr strings.Builder
		if status := run(t.Context(), args, &stdout, &stderr); status != fault.Usage || !strings.Contains(stderr.String(), want) {
			t.Errorf("%v: status %d, %s", args, status, stderr.String())
		}
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
