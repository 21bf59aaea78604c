// SPDX-License-Identifier: Apache-2.0

package server

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the Prometheus metrics of a site; docs/formats/metrics.md lists them.
type metrics struct {
	registry *prometheus.Registry
	running  *prometheus.GaugeVec
	tests    *prometheus.CounterVec
	refused  *prometheus.CounterVec
	bytes    *prometheus.CounterVec
	stored   prometheus.Histogram

	datagrams *prometheus.CounterVec
}

func newMetrics(maxTests int) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		running: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "weir_measure_tests_running", Help: "Tests that run now.",
		}, []string{"protocol", "direction"}),
		tests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_measure_tests_total", Help: "Ended tests by outcome: complete, short (the client ended it), failed, lost (no record), handshake.",
		}, []string{"protocol", "direction", "outcome"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_measure_refused_total", Help: "Refused tests and /v2/nearest requests by reason: tests, share, drain, store, token.",
		}, []string{"reason"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_measure_payload_bytes_total", Help: "Payload of the messages of ended tests.",
		}, []string{"protocol", "direction"}),
		stored: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "weir_measure_store_seconds", Help: "Time until the records of a test are durable.",
			Buckets: []float64{.001, .003, .01, .03, .1, .3, 1, 3, 10, 30},
		}),
	}
	m.datagrams = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_measure_datagrams_total", Help: "Datagrams of latency tests by result: kickoff, echo, repeated, invalid, unauthorized.",
	}, []string{"result"})
	most := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "weir_measure_tests_max", Help: "Tests that may run at the same time (--max-tests).",
	}, func() float64 { return float64(maxTests) })
	m.registry.MustRegister(m.running, m.tests, m.refused, m.bytes, m.stored, m.datagrams, most)
	for _, protocol := range []string{"ndt7", "throughput1"} {
		for _, direction := range []string{"download", "upload"} {
			m.running.WithLabelValues(protocol, direction)
		}
	}
	return m
}
