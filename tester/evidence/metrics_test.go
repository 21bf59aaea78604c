// SPDX-License-Identifier: Apache-2.0

package evidence_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"weir/record/hist"
	"weir/tester"
	"weir/tester/evidence"
	"weir/tester/session"
)

func TestMetricsAreWhatPrometheusReads(t *testing.T) {
	delay := &hist.Histogram{}
	delay.RecordN(2_000_000_000, 3)
	a := session.Account{Foreign: 7, Streams: []session.Stream{
		{ID: 3, Name: `a "b"`, From: "left", To: "right", Sent: &tester.Sent{Frames: 10}, Received: &tester.Counts{Received: 9, Lost: 1, Delay: delay, DelaySum: delay.Sum()}},
		{ID: 4, Name: "sent alone", Sent: &tester.Sent{Frames: 5}},
	}}
	var out bytes.Buffer
	if err := evidence.Metrics(&out, a); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`weir_tester_sent_frames_total{stream="a \"b\"",id="3",from="left",to="right"} 10`, `weir_tester_missing_frames{stream="a \"b\"",id="3",from="left",to="right"} 1`,
		`weir_tester_delay_seconds_sum{stream="a \"b\"",id="3",from="left",to="right"} 6`, `weir_tester_sent_frames_total{stream="sent alone",id="4",from="",to=""} 5`, "weir_tester_foreign_frames_total 7",
	} {
		if !strings.Contains(out.String(), want+"\n") {
			t.Errorf("no line %s in\n%s", want, out.String())
		}
	}
	problems, err := promlint.New(&out).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}
