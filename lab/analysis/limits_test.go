// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"math"
	"testing"
	"time"

	"weir/internal/direction"
	"weir/lab/limits"
	"weir/lab/run"
	"weir/lab/scenario"
	"weir/lab/traffic"
)

// second is the result of a flow with each bytes received in each of ten intervals of 100 ms.
func second(f traffic.Flow, each uint64) traffic.Result {
	f.Duration, f.Streams = time.Second, 1
	stream := traffic.Stream{}
	for range 10 {
		stream.Received = append(stream.Received, each)
	}
	return traffic.Result{Flow: f, Streams: []traffic.Stream{stream}}
}

func TestLimitUse(t *testing.T) {
	cell := &scenario.Cell{Links: []scenario.Link{{A: "a", B: "b", MTU: 1500}}}
	bulk := traffic.Flow{Name: "bulk", Kind: traffic.Bulk, From: "a", To: "b"}
	answers := traffic.Flow{Name: "answers", Kind: traffic.Request, From: "b", To: "a", Request: 100, Response: 10_000}
	asks := traffic.Flow{Name: "asks", Kind: traffic.Request, From: "b", To: "a", Request: 10_000, Response: 100}
	datagrams := traffic.Flow{Name: "udp", Kind: traffic.Datagram, From: "a", To: "b", Payload: 1000}
	for _, c := range []struct {
		name    string
		flow    traffic.Flow
		limit   scenario.Limit
		payload uint64 // bytes in 100 ms that use all of 10 Mbit/s; 0: the flow is not under the limit
	}{
		{"bulk", bulk, scenario.Limit{Host: "a"}, 125_000 * 1448 / 1514},
		{"bulk at its receiver", bulk, scenario.Limit{Host: "b", Direction: direction.Ingress}, 125_000 * 1448 / 1514},
		{"bulk, acknowledgements limited", bulk, scenario.Limit{Host: "b"}, 0},
		{"answers", answers, scenario.Limit{Host: "a"}, 125_000 * 1448 / 1514},
		{"requests", asks, scenario.Limit{Host: "a"}, 0},
		{"datagrams", datagrams, scenario.Limit{Host: "a"}, 125_000 * 1000 / 1042},
		{"another flow", bulk, scenario.Limit{Host: "a", Flows: []string{"other"}}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.limit.Rate = 10e6
			phase := run.PhaseResult{Phase: scenario.Phase{Duration: time.Second, Settle: 200 * time.Millisecond},
				Flows: []traffic.Result{second(c.flow, c.payload)}}
			use, found := limitUse(cell, c.limit, phase)
			if found != (c.payload > 0) || found && math.Abs(use-1) > 1e-4 {
				t.Errorf("used %v of the limit (%v)", use, found)
			}
		})
	}
}

func TestLimitCounters(t *testing.T) {
	status := limits.Status{Limit: scenario.Limit{Name: "cap", Rate: 8e6, Mechanism: scenario.Police}, Bytes: 1_500_000, Refused: 3, Marked: 5}
	status.Queue[0], status.Queue[3], status.Queue[10] = 50, 48, 2
	got := map[string]float64{}
	a := attempt{result: &run.Result{Cell: &scenario.Cell{}}}
	for _, s := range countSamples(a, status, 2*time.Second) {
		if s.Subject != "cap" {
			t.Errorf("subject %q", s.Subject)
		}
		got[s.Metric] = s.Value
	}
	want := map[string]float64{scenario.LimitRateUse: 0.75, scenario.LimitRefused: 3, scenario.LimitMarked: 5, scenario.LimitReduced: 0,
		scenario.LimitForced: 0, scenario.LimitQueueP50: 2e-6, scenario.LimitQueueP99: 2048e-6}
	for metric, value := range want {
		if math.Abs(got[metric]-value) > 1e-12 {
			t.Errorf("%s is %v, want %v", metric, got[metric], value)
		}
	}
	if len(got) != len(want) {
		t.Errorf("samples: %v", got)
	}
	status.Limit.Mechanism, status.Queue = scenario.HTB, [32]uint64{}
	if n := len(countSamples(a, status, time.Second)); n != 2 {
		t.Errorf("%d samples of a queue, want the 2 that it can tell", n)
	}
}
