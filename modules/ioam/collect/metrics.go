// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Metrics sends totals to an OpenTelemetry collector over HTTP as JSON (OTLP 1.x): packets, delays
// by path and hop, and flows of edge-to-edge options. Totals are cumulative, so a failed send is
// covered by the next one. It keeps as many entries as a [Summary]. Add may be called during Run.
type Metrics struct {
	URL    string // for metrics: http://host:4318/v1/metrics
	Host   string // service.instance.id
	Client *http.Client
	Every  time.Duration // interval of sends
	// Edges returns the flows of edge-to-edge options, most important first; nil for none.
	Edges func() ([]EdgeTotals, error)
	since time.Time
	lock  sync.Mutex // of totals
	total Summary
}

// EdgeTotals holds the totals of a flow from edge-to-edge options.
type EdgeTotals struct {
	Flow      Flow
	Namespace uint16
	Packets   uint64
	Lost      uint64 // decreases if a packet arrives late
	Reordered uint64
	Stamped   uint64 // packets with a time
	Delay     int64  // sum over stamped packets, in ns
	Min       int64
	Max       int64
}

// MaxSentPaths and MaxSentEdges limit the sent paths and edges to those with the most packets.
const (
	MaxSentPaths = 256
	MaxSentEdges = 1024
)

// NewMetrics returns Metrics that send to a URL.
func NewMetrics(url, host string) *Metrics {
	return &Metrics{URL: url, Host: host, Client: &http.Client{Timeout: 10 * time.Second}, Every: 10 * time.Second, since: time.Now()}
}

// Add counts a packet.
func (m *Metrics) Add(r *Record) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.total.Add(r)
}

// Run sends the totals until the context ends, and once after that. It returns the error of the
// last send.
func (m *Metrics) Run(ctx context.Context) error {
	ticker := time.NewTicker(m.Every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			_ = m.send(time.Now()) // the next send covers it
		case <-ctx.Done():
			return m.send(time.Now())
		}
	}
}

func (m *Metrics) send(now time.Time) error {
	var edges []EdgeTotals
	var err error
	if m.Edges != nil {
		edges, err = m.Edges()
	}
	metrics := append(m.totals(now), edgeMetrics(edges, now)...)
	request := metricsRequest{[]resourceMetrics{{Resource: resourceOf(m.Host), ScopeMetrics: []scopeMetrics{{instrumentation, metrics}}}}}
	return errors.Join(err, post(m.Client, m.URL, "metrics", request))
}

// totals returns the metrics of packets, paths and hops.
func (m *Metrics) totals(now time.Time) []metric {
	m.lock.Lock()
	defer m.lock.Unlock()
	at := times{strconv.FormatInt(m.since.UnixNano(), 10), strconv.FormatInt(now.UnixNano(), 10)}
	s, paths := &m.total, m.total.Paths()
	left := max(len(paths)-MaxSentPaths, 0)
	packets := counter("weir.ioam.packets", "{packet}", "Packets with IOAM that ended here, with or without a trace.", at.count(s.Packets))
	overflow := counter("weir.ioam.overflow", "{trace}", "Traces without space for a node.", at.count(s.Overflow))
	beyond := counter("weir.ioam.beyond", "{packet}", "Packets of more flows or paths than are kept.", at.count(s.Beyond))
	proofs := counter("weir.ioam.proofs", "{packet}", "Packets with a proof of transit.",
		at.count(s.Proven, text("ioam.proof", "holds")), at.count(s.Not, text("ioam.proof", "does not hold")))
	hidden := gauge("weir.ioam.paths.left_out", "{path}", "Omitted paths, with the fewest packets.", at.count(uint64(left)))
	path := counter("weir.ioam.path.packets", "{packet}", "Packets of a path.")
	entire := histogram("weir.ioam.path.delay", "From the first node's reception to the last one's.")
	delay := histogram("weir.ioam.hop.delay", "In the node.")
	link := histogram("weir.ioam.hop.to_next", "From the node's reception to the next one's.")
	backwards := counter("weir.ioam.hop.backwards", "{packet}", "Packets that the next node received before this one, by their clocks.")
	for _, p := range paths[:len(paths)-left] {
		labels := []attribute{whole("ioam.namespace", p.Namespace), text("ioam.path", p.String())}
		path.Sum.Points = append(path.Sum.Points, at.count(p.Packets, labels...))
		entire.histogram(at, &p.Whole, labels)
		for i := range p.Hops {
			h := &p.Hops[i]
			of := h.labels(labels, i)
			delay.histogram(at, &h.Delay, of)
			link.histogram(at, &h.Link, of)
			if h.Link.Count() > 0 || h.Backwards > 0 {
				backwards.Sum.Points = append(backwards.Sum.Points, at.count(h.Backwards, of...))
			}
		}
	}
	return filled(packets, overflow, beyond, proofs, hidden, path, entire, delay, link, backwards)
}

// labels returns the labels of a hop; its position distinguishes repeated nodes.
func (h *HopStats) labels(path []attribute, i int) []attribute {
	all := append(path[:len(path):len(path)], whole("ioam.hop", i+1), whole("ioam.node", h.Node))
	if h.Ingress.Known {
		all = append(all, whole("ioam.ingress", h.Ingress.Value))
	}
	if h.Egress.Known {
		all = append(all, whole("ioam.egress", h.Egress.Value))
	}
	return all
}

// edgeMetrics returns the metrics of flows. The start time of their counters is unknown.
func edgeMetrics(edges []EdgeTotals, now time.Time) []metric {
	at := times{Now: strconv.FormatInt(now.UnixNano(), 10)}
	packets := counter("weir.ioam.edge.packets", "{packet}", "Packets of a flow with edge-to-edge options that ended here.")
	lost := gauge("weir.ioam.edge.lost", "{packet}", "Packets that are missing of the numbers; it falls where one comes late.")
	reordered := counter("weir.ioam.edge.reordered", "{packet}", "Packets with a number below the highest.")
	delay := histogram("weir.ioam.edge.delay", "From edge to edge, by the clocks of both.")
	for i := range edges[:min(len(edges), MaxSentEdges)] {
		e := &edges[i]
		labels := append(e.Flow.attributes(), whole("ioam.namespace", e.Namespace))
		packets.Sum.Points = append(packets.Sum.Points, at.count(e.Packets, labels...))
		lost.Gauge.Points = append(lost.Gauge.Points, at.count(e.Lost, labels...))
		reordered.Sum.Points = append(reordered.Sum.Points, at.count(e.Reordered, labels...))
		if e.Stamped > 0 && e.Min >= 0 { // the sum of a histogram must not be negative
			delay.Histogram.Points = append(delay.Histogram.Points, histogramPoint{times: at, Attributes: labels, Count: strconv.FormatUint(e.Stamped, 10),
				Sum: float64(e.Delay) / 1e9, Min: float64(e.Min) / 1e9, Max: float64(e.Max) / 1e9})
		}
	}
	return filled(packets, lost, reordered, delay)
}
