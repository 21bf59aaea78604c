// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"weir/kernel/testutil"
)

// receiver starts a server with the OpenTelemetry collector's decoder; answer returns the status of
// each request.
func receiver(t *testing.T, answer func(nth int) int) (url string, received <-chan pmetric.Metrics) {
	t.Helper()
	all, nth := make(chan pmetric.Metrics, 1000), 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%v, %s", err, r.Header)
		}
		metrics, err := (&pmetric.JSONUnmarshaler{}).UnmarshalMetrics(body)
		if err != nil {
			t.Errorf("%v: %s", err, body)
		}
		all <- metrics
		w.WriteHeader(answer(nth))
		nth++
	}))
	t.Cleanup(server.Close)
	return server.URL, all
}

func ok(int) int { return http.StatusOK }

// sentBy runs an exporter that sends once, at its end.
func sentBy(t *testing.T, m *Metrics, received <-chan pmetric.Metrics) map[string]pmetric.Metric {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.Run(ctx); err != nil {
		t.Fatal(err)
	}
	return byName(t, <-received)
}

func byName(t *testing.T, metrics pmetric.Metrics) map[string]pmetric.Metric {
	t.Helper()
	if metrics.ResourceMetrics().Len() != 1 || metrics.ResourceMetrics().At(0).ScopeMetrics().Len() != 1 {
		t.Fatalf("%d resources", metrics.ResourceMetrics().Len())
	}
	resource := metrics.ResourceMetrics().At(0)
	if service, _ := resource.Resource().Attributes().Get("service.name"); service.Str() != "weir-ioam" {
		t.Errorf("the service is %q", service.AsString())
	}
	all := map[string]pmetric.Metric{}
	for _, m := range resource.ScopeMetrics().At(0).Metrics().All() {
		if m.Description() == "" || m.Unit() == "" {
			t.Errorf("%s lacks a description or a unit", m.Name())
		}
		if all[m.Name()] != (pmetric.Metric{}) {
			t.Errorf("%s comes twice", m.Name())
		}
		all[m.Name()] = m
	}
	return all
}

func text1(attributes pcommon.Map, key string) string {
	v, _ := attributes.Get(key)
	return v.AsString()
}

// traced returns a record of a packet with reception times and delays of nodes, in ns.
func traced(port uint16, at, delays []int64) *Record {
	r := &Record{Time: 9e9, Length: 100, Flow: Flow{netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2"), port, 80, 17}}
	trace := Trace{Namespace: 123}
	for i := range at {
		trace.Hops = append(trace.Hops, Hop{Node: uint64(i + 1), Egress: Optional[uint32]{uint32(10 * (i + 1)), true},
			Received: Optional[int64]{at[i], true}, Delay: Optional[int64]{delays[i], true}})
	}
	r.Traces = []Trace{trace}
	return r
}

// A receiver with the collector's decoder gets the delays of random packets as counted one by one.
func TestMetricsAreExported(t *testing.T) {
	url, received := receiver(t, ok)
	m, r := NewMetrics(url, "aramis"), testutil.Rand(t)
	m.Edges = func() ([]EdgeTotals, error) {
		flow := traced(7, nil, nil).Flow
		return []EdgeTotals{{flow, 5, 90, 10, 2, 80, 8e9, 1e6, 2e9}, {flow, 6, 3, 0, 0, 2, -5, -9, 4}}, nil
	}
	want := map[string][]int64{}
	note := func(what string, hop int, ns int64) {
		key := fmt.Sprintf("%s %d", what, hop)
		want[key] = append(want[key], ns)
	}
	backwards := 0
	for range 3000 {
		at, delays := []int64{1e9, 0, 0}, make([]int64, 3)
		for i := range at {
			delays[i] = int64(r.Uint64() >> (30 + r.IntN(34)))
			note("weir.ioam.hop.delay", i+1, delays[i])
			if i == 0 {
				continue
			}
			took := int64(r.Uint64()>>(28+r.IntN(36))) - 2
			at[i] = at[i-1] + took
			if took < 0 {
				backwards++
			} else {
				note("weir.ioam.hop.to_next", i, took)
			}
		}
		if all := at[2] - at[0]; all >= 0 {
			note("weir.ioam.path.delay", 0, all)
		}
		m.Add(traced(uint16(r.IntN(9)), at, delays))
	}
	m.Add(&Record{})
	got := sentBy(t, m, received)
	for _, name := range []string{"weir.ioam.hop.delay", "weir.ioam.hop.to_next", "weir.ioam.path.delay"} {
		if got[name].Type() != pmetric.MetricTypeHistogram || got[name].Histogram().AggregationTemporality() != pmetric.AggregationTemporalityCumulative {
			t.Fatalf("%s is %s", name, got[name].Type())
		}
		for _, p := range got[name].Histogram().DataPoints().All() {
			hop, _ := p.Attributes().Get("ioam.hop")
			key := fmt.Sprintf("%s %d", name, hop.Int())
			if path := text1(p.Attributes(), "ioam.path"); path != "-:1:10 > -:2:20 > -:3:30" || text1(p.Attributes(), "ioam.namespace") != "123" {
				t.Errorf("%s is of path %q", key, path)
			}
			if hop.Int() > 0 && (text1(p.Attributes(), "ioam.node") != fmt.Sprint(hop.Int()) || text1(p.Attributes(), "ioam.egress") != fmt.Sprint(10*hop.Int())) {
				t.Errorf("%s is of %v", key, p.Attributes().AsRaw())
			}
			checkHistogram(t, key, p, want[key])
			delete(want, key)
		}
	}
	if len(want) > 0 {
		t.Errorf("nothing was told of %d", len(want))
	}
	counts := func(name string) (all []int64) {
		for _, p := range got[name].Sum().DataPoints().All() {
			all = append(all, p.IntValue())
		}
		return all
	}
	if n := counts("weir.ioam.packets"); !slices.Equal(n, []int64{3001}) || !got["weir.ioam.packets"].Sum().IsMonotonic() {
		t.Errorf("%d packets", n)
	}
	if n := counts("weir.ioam.path.packets"); !slices.Equal(n, []int64{3000}) {
		t.Errorf("%d packets of the path", n)
	}
	var seen int64
	for _, n := range counts("weir.ioam.hop.backwards") {
		seen += n
	}
	if seen != int64(backwards) {
		t.Errorf("%d packets went backwards, want %d", seen, backwards)
	}
	if n := counts("weir.ioam.edge.packets"); !slices.Equal(n, []int64{90, 3}) {
		t.Errorf("%d packets of edges", n)
	}
	lost := got["weir.ioam.edge.lost"].Gauge().DataPoints()
	if lost.Len() != 2 || lost.At(0).IntValue() != 10 || text1(lost.At(0).Attributes(), "source.port") != "7" || text1(lost.At(1).Attributes(), "ioam.namespace") != "6" {
		t.Errorf("lost are %v", lost)
	}
	delay := got["weir.ioam.edge.delay"].Histogram().DataPoints()
	if delay.Len() != 1 { // no link delay with unsynchronised clocks
		t.Fatalf("%d delays", delay.Len())
	}
	if p := delay.At(0); p.Count() != 80 || p.Sum() != 8 || p.Min() != 0.001 || p.Max() != 2 {
		t.Errorf("the delay of a flow is %v", p)
	}
}

// checkHistogram compares a point with the values.
func checkHistogram(t *testing.T, name string, p pmetric.HistogramDataPoint, values []int64) {
	t.Helper()
	bounds, counts := p.ExplicitBounds().AsRaw(), p.BucketCounts().AsRaw()
	if !slices.IsSorted(bounds) || len(counts) != len(bounds)+1 || p.StartTimestamp() == 0 || p.Timestamp() < p.StartTimestamp() {
		t.Fatalf("%s: %d bounds, %d counts, from %d to %d", name, len(bounds), len(counts), p.StartTimestamp(), p.Timestamp())
	}
	want, sum := make([]uint64, len(counts)), 0.0
	for _, ns := range values {
		at, _ := slices.BinarySearch(bounds, float64(ns)/1e9) // the upper bound belongs to the bucket
		want[at]++
		sum += float64(ns) / 1e9
	}
	if !slices.Equal(counts, want) || p.Count() != uint64(len(values)) {
		t.Errorf("%s: %d, want %d", name, counts, want)
	}
	if math.Abs(p.Sum()-sum) > 1e-9*sum || p.Min() != float64(slices.Min(values))/1e9 || p.Max() != float64(slices.Max(values))/1e9 {
		t.Errorf("%s: sum %g, want %g; %g to %g", name, p.Sum(), sum, p.Min(), p.Max())
	}
}

// The next send covers a missed one, so a single failure is no error.
func TestTotalsOutliveAReceiver(t *testing.T) {
	url, received := receiver(t, func(nth int) int {
		if nth == 0 {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	m := NewMetrics(url, "")
	m.Every = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- m.Run(ctx) }()
	for n := int64(1); n <= 3; n++ {
		m.Add(traced(1, []int64{1, 2}, []int64{1, 1}))
		for optional := int64(0); optional < n; {
			optional = byName(t, <-received)["weir.ioam.packets"].Sum().DataPoints().At(0).IntValue()
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// The error of the last send is the exporter's. Known values are sent without unknown ones.
func TestWhatCannotBeSentIsAnError(t *testing.T) {
	url, received := receiver(t, ok)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m, none := NewMetrics(url, ""), errors.New("no edges")
	m.Edges = func() ([]EdgeTotals, error) { return nil, none }
	if err := m.Run(ctx); !errors.Is(err, none) || len(received) != 1 {
		t.Errorf("%v, %d were sent", err, len(received))
	}
	if err := NewMetrics("http://[::1]:1/", "").Run(ctx); err == nil {
		t.Error("nobody has received it")
	}
}

// Of many paths and flows, those with the most packets are sent.
func TestMetricsAreBounded(t *testing.T) {
	url, received := receiver(t, ok)
	m := NewMetrics(url, "")
	m.Edges = func() ([]EdgeTotals, error) { return make([]EdgeTotals, MaxSentEdges+7), nil }
	for i := range MaxSentPaths + 5 {
		r := traced(1, []int64{1, 2}, []int64{1, 1})
		r.Traces[0].Hops[0].Node = uint64(1000 + i)
		for range 1 + i/MaxSentPaths {
			m.Add(r)
		}
	}
	got := sentBy(t, m, received)
	paths := got["weir.ioam.path.packets"].Sum().DataPoints()
	if paths.Len() != MaxSentPaths || paths.At(4).IntValue() != 2 || got["weir.ioam.paths.left_out"].Gauge().DataPoints().At(0).IntValue() != 5 {
		t.Errorf("%d paths", paths.Len())
	}
	if n := got["weir.ioam.edge.packets"].Sum().DataPoints().Len(); n != MaxSentEdges {
		t.Errorf("%d edges", n)
	}
}
