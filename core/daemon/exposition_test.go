// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"weir/core/engine"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"weir/core/match"
	"weir/core/module"
	"weir/kernel/testutil"
	"weir/modules"
)

// collector is the oracle: Prometheus' own library gathers all metrics and then writes them.
type collector struct{ *gathered }

func (collector) Describe(chan<- *prometheus.Desc) {}

func (c collector) Collect(out chan<- prometheus.Metric) {
	of := func(m metric, v float64, labels ...string) {
		var names, values []string
		for i := 0; i < len(labels); i += 2 {
			if labels[i] != "" {
				names, values = append(names, labels[i]), append(values, labels[i+1])
			}
		}
		kind := prometheus.GaugeValue
		if m.kind == "counter" {
			kind = prometheus.CounterValue
		}
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc(m.name, m.help, names, nil), kind, v, values...)
	}
	for _, p := range c.core {
		var labels []string
		for _, l := range p.labels {
			labels = append(labels, l[0], l[1])
		}
		of(p.metric, p.value, labels...)
	}
	for _, s := range c.scopes {
		of(scopeState, 1, "scope", s.name, "state", s.state)
		if s.parent != "" {
			of(scopeParent, 1, "scope", s.name, "parent", s.parent)
		}
		if s.escaped >= 0 {
			of(scopeEscaped, float64(s.escaped), "scope", s.name)
		}
	}
	value := func(m metric, v module.Value, labels ...string) {
		switch {
		case !v.Known:
		case v.Histogram != nil:
			total, sum, buckets := cumulative(v.Histogram.Counts)
			if v.Histogram.Sum > 0 {
				sum = v.Histogram.Sum
			}
			out <- prometheus.MustNewConstHistogram(prometheus.NewDesc(m.name, m.help, []string{labels[0], labels[2]}, nil), total, sum, buckets, labels[1], labels[3])
		default:
			of(m, v.Number*m.scale, labels...)
		}
	}
	for _, r := range c.modules {
		for i, v := range r.report.Host {
			value(r.host[i], v)
		}
		for _, row := range r.report.Rows {
			for i, v := range row.Values {
				value(r.rows[i], v, "scope", row.Scope, r.part, row.Part)
			}
		}
	}
}

// cumulative makes the buckets of a histogram, in seconds.
func cumulative(counts [32]uint64) (total uint64, sum float64, buckets map[float64]uint64) {
	buckets = map[float64]uint64{}
	for i, n := range counts {
		low, high := math.Ldexp(1e-6, i), math.Ldexp(1e-6, i+1)
		if i == 0 {
			low = 0
		}
		total += n
		sum += float64(n) * (low + high) / 2
		if i <= lastBucket {
			buckets[high] = total
		}
	}
	return total, sum, buckets
}

// parseMetrics reads the text format; samples are sorted by their labels.
func parseMetrics(t *testing.T, text []byte) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		slices.SortFunc(f.Metric, func(a, b *dto.Metric) int {
			return strings.Compare(fmt.Sprint(a.GetLabel()), fmt.Sprint(b.GetLabel()))
		})
	}
	return families
}

// metricsOf returns the metrics of an engine.
func metricsOf(t *testing.T, e *engine.Engine) map[string]*dto.MetricFamily {
	t.Helper()
	var text bytes.Buffer
	if err := WriteMetrics(e, &text); err != nil {
		t.Fatal(err)
	}
	return parseMetrics(t, text.Bytes())
}

// The stream equals the text of Prometheus' library for the same reading, for the columns of all
// modules: for an active policy, and for values with special cases of the format.
func TestTheStreamEqualsTheLibrary(t *testing.T) {
	testutil.Need(t, "jit", match.Cgroup.Needs(ebpf.SockOps))
	e := setup(t)
	testutil.Mkdir(t, e.CgroupRoot, "a")
	p, err := language.Parse("policy", []byte(`version: 1
scopes:
  all: {egress: {rate: 9Mbit, mode: police}}
  a: {cgroup: /a, parent: all, ingress: {rate: 80Mbit, mode: police}, class: lbe, congestion: reno}
  later: {cgroup: /later, egress: {rate: 1Mbit, mode: police}}
`))
	if err != nil {
		t.Fatal(err)
	}
	apply(t, e, p.Scopes...)
	active, err := gather(e, &escapes{})
	if err != nil {
		t.Fatal(err)
	}
	for name, g := range map[string]*gathered{"active policy": active, "special cases": awkward()} {
		registry := prometheus.NewRegistry()
		registry.MustRegister(collector{g})
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var want, got bytes.Buffer
		for _, f := range families {
			if _, err := expfmt.MetricFamilyToText(&want, f); err != nil {
				t.Fatal(err)
			}
		}
		if err := g.write(&got); err != nil {
			t.Fatal(err)
		}
		if a, b := lines(want.String()), lines(got.String()); len(a) < 50 || !slices.Equal(a, b) {
			t.Errorf("%s (-library +stream):\n%s", name, cmp.Diff(a, b))
		}
		parsed := parseMetrics(t, got.Bytes())
		for family, f := range parseMetrics(t, want.Bytes()) {
			if parsed[family].String() != f.String() {
				t.Errorf("%s: %s differs from the library's after parsing", name, family)
			}
		}
		promtool(t, got.Bytes())
	}
}

// lines returns the lines of a text, sorted.
func lines(text string) []string { return slices.Sorted(strings.Lines(text)) }

// awkward returns a reading with special cases of the format: the columns of all modules, more
// samples than the buffer holds, escaped characters, infinities and NaN.
func awkward() *gathered {
	g := &gathered{core: corePoints(engine.Status{})}
	for i := range 400 {
		name := fmt.Sprintf("scope-%d", i)
		if i == 0 {
			name = "a \"quoted\" back\\slash\nand more"
		}
		g.scopes = append(g.scopes, scopePoint{name, "enforced", strings.Repeat("p", i%2), i%3 - 1})
	}
	numbers := []float64{0, 1, 1e6, 123456789012, 0.1, math.Inf(1), math.Inf(-1), math.NaN(), 1 << 60, 1e-9}
	n := 0
	for _, r := range modules.All() {
		one, columns := modulePoints{moduleMetrics: describeModule(r), part: r.Columns().Part}, r.Columns()
		for range columns.Host {
			n++
			one.report.Host = append(one.report.Host, module.Measured(numbers[n%len(numbers)]))
		}
		for _, s := range g.scopes {
			row := module.Row{Scope: s.name, Part: "egress"}
			for _, c := range columns.Rows {
				switch n++; {
				case n%7 == 0:
					row.Values = append(row.Values, module.Value{})
				case c.Kind == module.Histogram:
					row.Values = append(row.Values, module.HistogramValue(module.Buckets{Counts: [32]uint64{0: uint64(n % 3), 5: uint64(n % 2), 31: uint64(n % 5)}, Sum: float64(n % 2)}))
				default:
					row.Values = append(row.Values, module.Measured(numbers[n%len(numbers)]))
				}
			}
			one.report.Rows = append(one.report.Rows, row, module.Row{Scope: s.name, Part: "ingress"})
		}
		g.modules = append(g.modules, one)
	}
	return g
}

// promtool runs Prometheus' checker on the text if promtool is installed.
func promtool(t *testing.T, text []byte) {
	t.Helper()
	path, err := exec.Command("../../packaging/promtool", "--path").Output()
	if err != nil {
		t.Logf("promtool: %v", err)
		return
	}
	command := exec.Command(strings.TrimSpace(string(path)), "check", "metrics")
	command.Stdin = bytes.NewReader(text)
	if said, err := command.CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s", err, said)
	}
}

// broken is a writer that fails after left bytes.
type broken struct{ left int }

func (b *broken) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errors.New("gone")
	}
	return len(p), nil
}

func TestAWriterThatBreaksEndsTheStream(t *testing.T) {
	g := awkward()
	var whole bytes.Buffer
	if err := g.write(&whole); err != nil || whole.Len() < 4*expositionBuffer {
		t.Fatalf("%d octets: %v", whole.Len(), err)
	}
	for _, left := range []int{0, expositionBuffer, whole.Len() / 2, whole.Len() - 1} {
		if err := g.write(&broken{left}); err == nil {
			t.Errorf("no error after %d of %d octets", left, whole.Len())
		}
	}
}

// The memory used to write metrics does not grow with the policy: lines cause no allocation.
func TestWritingAllocatesNothingPerLine(t *testing.T) {
	g := awkward()
	var text bytes.Buffer
	if err := g.write(&text); err != nil {
		t.Fatal(err)
	}
	lines := bytes.Count(text.Bytes(), []byte("\n"))
	if allocated := testing.AllocsPerRun(3, func() { _ = g.write(io.Discard) }); allocated > float64(lines)/20 {
		t.Errorf("%g allocations for %d lines", allocated, lines)
	}
}

// A scrape is compressed if the client accepts gzip, with the same text.
func TestScrapesAreCompressedOnRequest(t *testing.T) {
	e := setup(t)
	apply(t, e, limited("a", 1e6))
	handler := newScraper(e).handler()
	for accept, want := range map[string]bool{"": false, "gzip": true, "gzip;q=0": false, "deflate, GZIP;q=0.5": true, "*": true, "*, gzip;q=0": false, "br": false} {
		request := httptest.NewRequest("GET", "/metrics", nil)
		request.Header.Set("Accept-Encoding", accept)
		request.Header.Set("Accept", "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5")
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		if answer.Code != http.StatusOK || !strings.HasPrefix(answer.Header().Get("Content-Type"), "text/plain; version=0.0.4") {
			t.Errorf("%q: %d, %v", accept, answer.Code, answer.Header())
		}
		var body io.Reader = answer.Body
		if got := answer.Header().Get("Content-Encoding") == "gzip"; got != want {
			t.Errorf("%q: compressed is %t, want %t", accept, got, want)
		} else if got {
			var err error
			if body, err = gzip.NewReader(body); err != nil {
				t.Fatal(err)
			}
		}
		text, err := io.ReadAll(body)
		if families := parseMetrics(t, text); err != nil || families["weir_scope_bytes_total"] == nil || families["process_open_fds"] == nil {
			t.Errorf("%q: %v in %d families", accept, err, len(families))
		}
	}
}

// Concurrent scrapes share a reading, which expires soon.
func TestAReadingIsSharedAndExpires(t *testing.T) {
	e := setup(t)
	apply(t, e, limited("a", 1e6))
	s := newScraper(e)
	first, err := s.gather()
	if err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, patience, "the end of a reading", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.last == nil
	})
	second, err := s.gather()
	if err != nil || first == second {
		t.Errorf("the scrape got an expired reading: %v", err)
	}
}
