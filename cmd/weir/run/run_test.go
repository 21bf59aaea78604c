// SPDX-License-Identifier: Apache-2.0

package run

import (
	"strings"
	"testing"
	"time"

	"weir/cmd/weir/cli"
	"weir/internal/direction"
	"weir/internal/dscp"
	"weir/internal/fault"
	"weir/modules/cc"
	"weir/modules/class"
	"weir/modules/class/datagrams"
	"weir/modules/limit/police"
	"weir/modules/limit/scoped"
)

// Counts of a shadow limit are reported as not applied.
func TestTheSummaryOfARun(t *testing.T) {
	counted := police.Counters{}
	counted.Bytes, counted.Marked = 1000, 7
	outcome := scoped.Outcome{Elapsed: time.Second, Counted: map[direction.Direction]police.Counters{direction.Egress: counted}}
	for want, a := range map[string]*cli.App{"7 packets would have been marked": {Format: "text"}, `"format": "weir-run/1"`: {Format: "json"}} {
		var stdout, stderr strings.Builder
		a.Stdout, a.Stderr = &stdout, &stderr
		if err := summarize(a, outcome, nil, true, ""); err != nil || !strings.Contains(stderr.String(), want) || stdout.Len() != 0 {
			t.Errorf("%v; printed %q and %q, want %q", err, stdout.String(), stderr.String(), want)
		}
	}
}

// One line names the rate and the mode of each direction.
func TestActiveLimitsAreDescribedInOneLine(t *testing.T) {
	limits := map[direction.Direction]*police.Limit{direction.Egress: {Rate: 100e6}, direction.Ingress: {Rate: 5e6}}
	modes := map[direction.Direction]scoped.Mode{direction.Egress: {Mode: police.ModeShape}, direction.Ingress: {Mode: police.ModePolice, Reason: "a cgroup has no device"}}
	if got, want := describeModes(limits, modes), "limit active: egress 100 Mbit/s, shaped; ingress 5 Mbit/s, policed since a cgroup has no device"; got != want {
		t.Errorf("described as %q, want %q", got, want)
	}
}

// A class is reported with its marked packets, with or without limits.
func TestTheSummaryOfARunInAClass(t *testing.T) {
	given := &classed{Class: "lbe", DSCP: dscp.LowEffort, Counts: class.Counts{Packets: 12, Octets: 3000, Marked: 11, Failed: 1},
		Downloads: &cc.Received{Connections: 2, NoTimestamps: 1, Slowdowns: 3, Reductions: 4, Steps: 10, WindowSum: 20480, DelaySum: 30_000},
		Datagrams: &datagrams.Counts{Octets: 2048, Dropped: 3, Rate: 256_000}}
	for want, a := range map[string]*cli.App{
		"class lbe: sent 2.93 KiB in 12 packets; 11 marked with DSCP 1, 1 could not be marked":                                                     {Format: "text"},
		"; downloads of 2 connections held at 2 KiB and 3ms of queue on average, 3 slowdowns, 4 reductions by loss, 1 without timestamps not held": {Format: "text"},
		"; datagrams: 2 KiB held, 3 dropped": {Format: "text"}, `"rate": 256000`: {Format: "json"},
		`"marked": 11`: {Format: "json"}, `"class": "lbe"`: {Format: "json"}, `"dscp": 1`: {Format: "json"},
	} {
		var stdout, stderr strings.Builder
		a.Stdout, a.Stderr = &stdout, &stderr
		if err := summarize(a, scoped.Outcome{Elapsed: time.Second}, given, false, ""); err != nil || !strings.Contains(stderr.String(), want) {
			t.Errorf("%v; printed %q, want %q", err, stderr.String(), want)
		}
	}
}

// The summary of downloads matches the counters.
func TestTheSummaryOfDownloads(t *testing.T) {
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

// The advice repeats the given options.
func TestTheAdviceRepeatsTheOptions(t *testing.T) {
	for want, args := range map[string][]string{
		"weir run --limit 100Mbit -- ":              {"run"},
		"weir run --class lbe -- ":                  {"run", "--class", "lbe"},
		"weir run --ingress 5Mbit --class AF21 -- ": {"run", "--class", "AF21", "--ingress", "5Mbit"},
	} {
		if status, _, stderr := commands.Call(t, args...); status != fault.Usage || !strings.Contains(stderr, want) {
			t.Errorf("%v: status %d, %s", args, status, stderr)
		}
	}
}

func TestARunIsOfACommandOrAProcess(t *testing.T) {
	for _, args := range [][]string{{"run", "--limit", "1Mbit"}, {"run", "--limit", "1Mbit", "--pid", "1", "true"}, {"run", "--limit", "1Mbit", "--pid", "1", "--user", "root"}} {
		if status, _, stderr := commands.Call(t, args...); status != fault.Usage {
			t.Errorf("%v: status %d, %s", args, status, stderr)
		}
	}
}
