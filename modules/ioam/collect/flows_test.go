// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"
)

// attributesOf returns the integer attributes of a span.
func attributesOf(t *testing.T, s span) map[string]int64 {
	t.Helper()
	all := map[string]int64{}
	for _, a := range s.Attributes {
		if a.Value.Int == nil {
			continue
		}
		v, err := strconv.ParseInt(*a.Value.Int, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		all[a.Key] = v
	}
	return all
}

// later returns recordOf with a later reception at the middle node, in ns.
func later(t *testing.T, port uint16, second uint32, ns int64) *Record {
	t.Helper()
	r := recordOf(t, port, second)
	r.Traces[0].Hops[1].Received.Value += ns
	return r
}

// Packets of a flow become one trace with a span per hop. Its attributes are count, minimum, median
// and maximum. Other flows, paths and application spans have their own traces.
func TestAFlowIsOneTrace(t *testing.T) {
	var f FlowTraces
	shifts := []int64{0, 300, 100, 500, -3000} // the last node's clock is behind
	for i, ns := range shifts {
		if !f.add(later(t, 1, uint32(i), ns)) {
			t.Fatal("there is no room")
		}
	}
	f.add(recordOf(t, 2, 0))
	of := recordOf(t, 1, 9)
	of.Context = TraceContext{Trace: [16]byte{1}, Parent: [8]byte{2}, Flags: 1}
	f.add(of)
	f.add(of)
	path := recordOf(t, 1, 9)
	path.Traces[0].Hops = path.Traces[0].Hops[:2]
	f.add(path)
	f.add(&Record{})
	all := f.take()
	if len(all) != 4 || len(f.take()) != 0 {
		t.Fatalf("%d traces", len(all))
	}
	spans := all[0]
	if len(spans) != 4 {
		t.Fatalf("%d spans", len(spans))
	}
	root := attributesOf(t, spans[0])
	if root["ioam.packets"] != 5 || root["ioam.octets"] != 5000 || root["ioam.interval_ns"] != 4e9 || root["ioam.path_ns.count"] != 5 || root["ioam.path_ns.median"] != 8000 {
		t.Errorf("the flow is %v", root)
	}
	for i, want := range []map[string]int64{
		{"ioam.node": 1, "ioam.to_next_ns.count": 4, "ioam.to_next_ns.min": 1000, "ioam.to_next_ns.median": 1100, "ioam.to_next_ns.max": 1500, "ioam.backwards": 1, "ioam.delay_ns.median": 100, "ioam.delay_ns.count": 5},
		{"ioam.node": 2, "ioam.to_next_ns.count": 5, "ioam.to_next_ns.min": 500, "ioam.to_next_ns.median": 900, "ioam.to_next_ns.max": 4000, "ioam.delay_ns.max": 200, "ioam.ingress": 20, "ioam.egress": 21},
		{"ioam.node": 3, "ioam.to_next_ns.count": 5, "ioam.to_next_ns.median": 6000, "ioam.queue.median": 3},
	} {
		got := attributesOf(t, spans[1+i])
		for key, v := range want {
			if got[key] != v {
				t.Errorf("hop %d: %s is %d, want %d", i, key, got[key], v)
			}
		}
		if spans[1+i].ParentID != spans[0].SpanID || spans[1+i].TraceID != spans[0].TraceID || i > 0 && spans[1+i].Start != spans[i].End {
			t.Errorf("hop %d is %+v", i, spans[1+i])
		}
	}
	if spans[0].Start != "1000" || spans[0].End != "9000" || spans[1].Start != "1000" || spans[2].Start != "2100" {
		t.Errorf("the flow is from %s to %s, hops begin at %s and %s", spans[0].Start, spans[0].End, spans[1].Start, spans[2].Start)
	}
	if joined := all[2][0]; joined.TraceID != "01000000000000000000000000000000" || joined.ParentID != "0200000000000000" || attributesOf(t, joined)["ioam.packets"] != 2 {
		t.Errorf("the application's is %+v", joined)
	}
}

// Medians above the sample size use a sample; minimum and maximum use all values.
func TestSpreadsAreBounded(t *testing.T) {
	var s distribution
	for i := range int64(10_000) {
		s.add(i)
	}
	// The median of 127 of 10,000: below 2000 with a probability of less than 1e-13.
	if len(s.sample) != flowSamples || s.count != 10_000 || s.min != 0 || s.max != 9999 || s.median() < 2000 || s.median() > 8000 {
		t.Errorf("%d of %d, %d to %d, median %d", len(s.sample), s.count, s.min, s.max, s.median())
	}
	var f FlowTraces
	for i := range MaxFlowTraces + 1 {
		r := recordOf(t, uint16(i), 0)
		if added := f.add(r); added != (i < MaxFlowTraces) {
			t.Fatalf("flow %d was added: %t", i, added)
		}
	}
}

// Traces are sent at the end of an interval, and at the end of Run.
func TestFlowsAreSentEachInterval(t *testing.T) {
	received := make(chan struct{}, 10)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { received <- struct{}{} }))
	defer server.Close()
	o := NewOTLP(server.URL, "")
	o.Flows = &FlowTraces{Every: time.Millisecond}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { o.Run(ctx, func(err error) { t.Error(err) }); close(ended) }()
	for range 2 {
		o.Add(recordOf(t, 1, 0))
		<-received
	}
	cancel()
	<-ended
}

// A flow with a new context per packet has a bounded number of traces, and one for the rest. Other
// flows keep their places.
func TestNobodyFillsAllPlacesBySayingMuch(t *testing.T) {
	var f FlowTraces
	for i := range MaxFlowTraces + 5 {
		r := recordOf(t, 1, 0)
		r.Context = TraceContext{Trace: [16]byte{1}, Parent: [8]byte{byte(i >> 8), byte(i), 1}, Flags: 1}
		if !f.add(r) {
			t.Fatalf("there is no room for packet %d", i)
		}
	}
	if !f.add(recordOf(t, 2, 0)) {
		t.Fatal("there is no room for another flow")
	}
	all := f.take()
	if len(all) != MaxFlowSpans+2 {
		t.Fatalf("%d traces", len(all))
	}
	if rest := attributesOf(t, all[MaxFlowSpans][0])["ioam.packets"]; rest != MaxFlowTraces+5-MaxFlowSpans {
		t.Errorf("the flow's own trace has %d packets", rest)
	}
}
