// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"weir/internal/fault"
	"weir/limit"
	"weir/limit/scoped"
)

// With --format json an error is the one document on standard output, and a result is never
// followed by a second one.
func TestAnErrorIsAJSONDocument(t *testing.T) {
	status, stdout, stderr := call(t, "plan", "/nowhere.yaml", "--format", "json")
	var got errorDocument
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatalf("%v: %q", err, stdout)
	}
	if got.Format != "weir-error/1" || got.Status != int(status) || status != fault.Usage || got.Try == "" || !strings.Contains(got.Error, "/nowhere.yaml") {
		t.Errorf("status %d, %+v", status, got)
	}
	if !strings.Contains(stderr, got.Error) {
		t.Errorf("standard error says %q", stderr)
	}
	var out strings.Builder
	a := &app{stdout: &out, stderr: &strings.Builder{}, format: "json"}
	if err := a.json(1); err != nil {
		t.Fatal(err)
	}
	a.report(fault.New(fault.Failed, "", "too late"))
	if out.String() != "1\n" {
		t.Errorf("after a result: %q", out.String())
	}
}

// What only a shadow limit counted was not done.
func TestTheSummaryOfARun(t *testing.T) {
	counted := limit.Counters{}
	counted.Bytes, counted.Marked = 1000, 7
	outcome := scoped.Outcome{Elapsed: time.Second, Counted: map[limit.Direction]limit.Counters{limit.Egress: counted}}
	for want, a := range map[string]*app{"7 packets would have been marked": {format: "text"}, `"format": "weir-run/1"`: {format: "json"}} {
		var stdout, stderr strings.Builder
		a.stdout, a.stderr = &stdout, &stderr
		if err := a.summarize(outcome, true, ""); err != nil || !strings.Contains(stderr.String(), want) || stdout.Len() != 0 {
			t.Errorf("%v; printed %q and %q, want %q", err, stdout.String(), stderr.String(), want)
		}
	}
}

// The sweep of labs advises it.
func TestLabListUp(t *testing.T) {
	list, _, err := newRoot(&app{}).Find([]string{"lab", "list"})
	if err != nil || list.Flags().Lookup("up") == nil {
		t.Errorf("weir lab list has no --up: %v", err)
	}
}
