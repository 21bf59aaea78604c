// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"weir/modules/ioam/codec"
)

var fields = codec.HopLimitNode | codec.Interfaces | codec.Seconds | codec.Fraction | codec.TransitDelay | codec.QueueDepth

// headers returns a Hop-by-Hop header with the trace of three nodes: node n receives the packet n
// µs after a second, keeps it for 100n ns, and has a queue of n bytes.
func headers(second uint32) []byte {
	t := codec.NewTrace(123, fields, 0, 0)
	for n := range uint32(3) {
		n = 3 - n
		t.Nodes = append(t.Nodes, codec.Node{HopLimit: uint8(64 - n), ID: n, Ingress: uint16(10 * n), Egress: uint16(10*n + 1),
			Seconds: second, Fraction: n, TransitDelay: 100 * n, QueueDepth: n})
	}
	return codec.AppendHeader(nil, 17, t)
}

func recordOf(t testing.TB, port uint16, second uint32) *Record {
	t.Helper()
	r := &Record{Time: int64(second)*1e9 + 9000, Length: 1000, Flow: Flow{netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2"), port, 80, 17}}
	if err := r.Decode(POSIX, 0, headers(second)); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRecordsBecomeFlowsAndPaths(t *testing.T) {
	var s Summary
	for i := range uint32(10) {
		s.Add(recordOf(t, uint16(1+i%2), i))
	}
	flows, paths := s.Flows(), s.Paths()
	if s.Packets != 10 || len(flows) != 2 || len(paths) != 1 || flows[0].Packets != 5 || flows[0].Octets != 5000 || flows[0].Path != paths[0] || flows[0].Changes != 0 {
		t.Fatalf("%+v, %d flows, %d paths", s, len(flows), len(paths))
	}
	for i, h := range paths[0].Hops {
		n := uint64(i + 1)
		if h.Node != n || h.Ingress.Value != uint32(10*n) || h.Delay.Count() != 10 || h.Delay.Max() != 100*n || h.Queue.Mean() != float64(n) {
			t.Errorf("hop %d: %+v", i, h)
		}
		if links := h.Link.Count(); i < 2 && (links != 10 || h.Link.Mean() != 1000) || i == 2 && links != 0 {
			t.Errorf("hop %d: %d links of %g ns", i, links, h.Link.Mean())
		}
	}
}

func TestWhatANodeDidNotTellIsLeftOut(t *testing.T) {
	none := codec.Node{HopLimit: 1, ID: 5, Ingress: codec.None16, Egress: codec.None16, Seconds: codec.None32, Fraction: codec.None32, TransitDelay: codec.None32, QueueDepth: codec.None32}
	trace := codec.NewTrace(1, fields, 0, 0)
	trace.Nodes = []codec.Node{none}
	var r Record
	if err := r.Decode(POSIX, 0, codec.AppendHeader(nil, 17, trace)); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(r.Traces)
	if want := `[{"namespace":1,"hops":[{"node":5,"hop_limit":1}]}]`; err != nil || string(text) != want {
		t.Errorf("%s, want %s: %v", text, want, err)
	}
}

func TestPostcardsAreRead(t *testing.T) {
	x := codec.Export{Namespace: 7, Extensions: codec.FlowID | codec.ExportSequence, Fields: codec.HopLimitNode | codec.TransitDelay, Flow: 99, Sequence: 3}
	octets := append(x.Append(nil), 61, 0, 0, 9, 0, 0, 0, 200)
	var r Record
	if err := r.DecodePostcard(POSIX, octets); err != nil || *r.Export != x || r.Traces[0].Hops[0].Node != 9 || r.Traces[0].Hops[0].Delay.Value != 200 {
		t.Errorf("%+v, %v", r, err)
	}
	for i := range octets {
		if err := new(Record).DecodePostcard(POSIX, octets[:i]); err == nil {
			t.Errorf("%d octets of %d are read", i, len(octets))
		}
	}
}

func FuzzRecord(f *testing.F) {
	f.Add(headers(1), true)
	f.Fuzz(func(_ *testing.T, octets []byte, postcard bool) {
		var r Record
		var s Summary
		if postcard {
			_ = r.DecodePostcard(NTP, octets)
		} else {
			_ = r.Decode(PTP, 0, octets)
		}
		s.Add(&r)
		_ = spansOf(&r)
	})
}

// A receiver with the OpenTelemetry collector's decoder gets each packet as a trace: a span for the
// packet, and one for each hop in order.
func TestTracesAreExported(t *testing.T) {
	received := make(chan ptrace.Traces, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%v, %s", err, r.Header)
		}
		traces, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(body)
		if err != nil {
			t.Errorf("%v: %s", err, body)
			return
		}
		received <- traces
	}))
	defer server.Close()
	o := NewOTLP(server.URL, "aramis")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	want := recordOf(t, 1, 0)
	for i := range uint32(3) {
		o.Add(recordOf(t, 1, i))
	}
	go func() { o.Run(ctx, func(err error) { t.Error(err) }); close(ended) }()
	cancel()
	<-ended
	close(received)
	traces, any := <-received
	if !any {
		t.Fatal("nothing was received")
	}
	if traces.SpanCount() != 12 || traces.ResourceSpans().Len() != 1 || o.Dropped != 0 {
		t.Fatalf("%d spans, %d dropped", traces.SpanCount(), o.Dropped)
	}
	resource := traces.ResourceSpans().At(0)
	if service, _ := resource.Resource().Attributes().Get("service.name"); service.Str() != "weir-ioam" {
		t.Errorf("the service is %q", service.AsString())
	}
	spans := resource.ScopeSpans().At(0).Spans()
	root := spans.At(0)
	if address, _ := root.Attributes().Get("destination.address"); address.Str() != want.Flow.Destination.String() || root.SpanID().IsEmpty() || !root.ParentSpanID().IsEmpty() {
		t.Errorf("the packet's span is %+v", root)
	}
	for i, hop := range want.Traces[0].Hops {
		span := spans.At(1 + i)
		node, _ := span.Attributes().Get("ioam.node")
		if span.TraceID() != root.TraceID() || span.ParentSpanID() != root.SpanID() || span.SpanID().IsEmpty() || node.Int() != int64(hop.Node) || int64(span.StartTimestamp()) != hop.Received.Value {
			t.Errorf("hop %d is %+v, want %+v", i, span, hop)
		}
		if i > 0 && spans.At(i).EndTimestamp() != span.StartTimestamp() {
			t.Errorf("hop %d begins at %d, that before ends at %d", i, span.StartTimestamp(), spans.At(i).EndTimestamp())
		}
	}
	if spans.At(4).TraceID() == root.TraceID() {
		t.Error("two packets are one trace")
	}
}

// A receiver that does not answer costs records, and blocks no caller.
func TestTheExportQueueIsBounded(t *testing.T) {
	o := NewOTLP("http://[::1]:1/", "")
	r := recordOf(t, 1, 1)
	for range Queue + 10 {
		o.Add(r)
	}
	if o.Dropped != 10 || len(o.queue) != Queue {
		t.Errorf("%d dropped, %d wait", o.Dropped, len(o.queue))
	}
}

func TestFlowsAreBounded(t *testing.T) {
	var s Summary
	r := recordOf(t, 1, 1)
	for i := range MaxFlows + 5 {
		r.Flow.SourcePort, r.Flow.DestinationPort = uint16(i), uint16(i>>16)
		s.Add(r)
	}
	if s.Beyond != 5 || len(s.Flows()) != MaxFlows {
		t.Errorf("%d beyond, %d flows", s.Beyond, len(s.Flows()))
	}
}

func BenchmarkDecodeAndAggregate(b *testing.B) {
	octets := headers(1)
	var s Summary
	flow := Flow{netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2"), 1, 80, 17}
	b.ReportAllocs()
	for i := range b.N {
		r := Record{Flow: flow, Time: int64(i)}
		r.Flow.SourcePort = uint16(i)
		if err := r.Decode(POSIX, 0, octets); err != nil {
			b.Fatal(err)
		}
		s.Add(&r)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
	if s.Packets != uint64(b.N) {
		b.Fatal(fmt.Sprint(s.Packets))
	}
}

// All keys of a record's JSON are in lower case.
func TestJSONKeysAreLowerCase(t *testing.T) {
	r := recordOf(t, 1, 1)
	r.Edges = []codec.Edge{{Namespace: 5, Fields: codec.Sequence64, Sequence: 7}}
	r.Export = &codec.Export{Namespace: 7, Flow: 99, Sequence: 3}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range regexp.MustCompile(`"([^"]*)":`).FindAllStringSubmatch(string(text), -1) {
		if key[1] != strings.ToLower(key[1]) {
			t.Errorf("key %q in %s", key[1], text)
		}
	}
	for _, want := range []string{`"edges":[{"namespace":5,"fields":32768,"sequence":7,`, `"flow_id":99,"sequence":3}`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s lacks %s", text, want)
		}
	}
}
