// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"math/bits"
	"strconv"

	"weir/record/hist"
)

// Metrics in the JSON form of OTLP.
type (
	times struct {
		Start string `json:"startTimeUnixNano,omitempty"` // "" if unknown
		Now   string `json:"timeUnixNano"`
	}
	numberPoint struct {
		times
		Attributes []attribute `json:"attributes,omitempty"`
		Value      string      `json:"asInt"`
	}
	histogramPoint struct {
		times
		Attributes []attribute `json:"attributes"`
		Count      string      `json:"count"`
		Sum        float64     `json:"sum"`
		Buckets    []string    `json:"bucketCounts,omitempty"`
		Bounds     []float64   `json:"explicitBounds,omitempty"`
		Min        float64     `json:"min"`
		Max        float64     `json:"max"`
	}
	sum struct {
		Points      []numberPoint `json:"dataPoints"`
		Temporality int           `json:"aggregationTemporality"`
		Monotonic   bool          `json:"isMonotonic"`
	}
	gaugePoints struct {
		Points []numberPoint `json:"dataPoints"`
	}
	histogramPoints struct {
		Points      []histogramPoint `json:"dataPoints"`
		Temporality int              `json:"aggregationTemporality"`
	}
	metric struct {
		Name        string           `json:"name"`
		Description string           `json:"description"`
		Unit        string           `json:"unit"`
		Sum         *sum             `json:"sum,omitempty"`
		Gauge       *gaugePoints     `json:"gauge,omitempty"`
		Histogram   *histogramPoints `json:"histogram,omitempty"`
	}
	scopeMetrics struct {
		Scope   named    `json:"scope"`
		Metrics []metric `json:"metrics"`
	}
	resourceMetrics struct {
		Resource     resource       `json:"resource"`
		ScopeMetrics []scopeMetrics `json:"scopeMetrics"`
	}
	metricsRequest struct {
		ResourceMetrics []resourceMetrics `json:"resourceMetrics"`
	}
)

const cumulative = 2

func counter(name, unit, description string, points ...numberPoint) metric {
	return metric{Name: name, Unit: unit, Description: description, Sum: &sum{points, cumulative, true}}
}

func gauge(name, unit, description string, points ...numberPoint) metric {
	return metric{Name: name, Unit: unit, Description: description, Gauge: &gaugePoints{points}}
}

// histogram returns a histogram of times.
func histogram(name, description string) metric {
	return metric{Name: name, Unit: "s", Description: description, Histogram: &histogramPoints{Temporality: cumulative}}
}

func (t times) count(n uint64, labels ...attribute) numberPoint {
	return numberPoint{t, labels, strconv.FormatUint(n, 10)}
}

// filled returns the metrics with a point.
func filled(all ...metric) (some []metric) {
	for _, m := range all {
		if m.Sum != nil && len(m.Sum.Points) > 0 || m.Gauge != nil && len(m.Gauge.Points) > 0 || m.Histogram != nil && len(m.Histogram.Points) > 0 {
			some = append(some, m)
		}
	}
	return some
}

// Buckets of times end at powers of two less 1 ns, as in package hist, so their counts are exact:
// from 1.023 µs to 17.2 s.
const (
	minBits = 10
	maxBits = 34
)

var bounds = func() (all []float64) {
	for n := minBits; n <= maxBits; n++ {
		all = append(all, float64(uint64(1)<<n-1)/1e9)
	}
	return all
}()

// histogram adds a histogram of nanoseconds; an empty one adds nothing.
func (m *metric) histogram(at times, h *hist.Histogram, labels []attribute) {
	if h.Count() == 0 {
		return
	}
	counts := make([]uint64, len(bounds)+1)
	for i, n := range h.All() {
		low, _ := hist.Bounds(i)
		counts[min(max(bits.Len64(low)-minBits, 0), len(bounds))] += n
	}
	p := histogramPoint{times: at, Attributes: labels, Count: strconv.FormatUint(h.Count(), 10), Sum: float64(h.Sum()) / 1e9,
		Bounds: bounds, Min: float64(h.Min()) / 1e9, Max: float64(h.Max()) / 1e9}
	for _, n := range counts {
		p.Buckets = append(p.Buckets, strconv.FormatUint(n, 10))
	}
	m.Histogram.Points = append(m.Histogram.Points, p)
}
