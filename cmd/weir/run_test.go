// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

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
		if err := a.summarize(outcome, true, ""); err != nil || !strings.Contains(stderr.String(), want) || stdout.Len() != 0 {
			t.Errorf("%v; printed %q and %q, want %q", err, stdout.String(), stderr.String(), want)
		}
	}
}
