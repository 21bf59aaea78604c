// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"weir/internal/room"
	"weir/internal/version"
)

// collector reads the state of the host anew for every scrape; it keeps only what is dear to find
// out.
type collector struct {
	engine  *Engine
	escapes *escapes
	rooms   map[string]*roomMetrics
}

// Registry returns the metrics of an engine; docs/formats/metrics.md describes them.
func (e *Engine) Registry() *prometheus.Registry {
	rooms := map[string]*roomMetrics{}
	for _, r := range e.Rooms {
		rooms[r.Name()] = describeRoom(r)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector{e, &escapes{}, rooms})
	return registry
}

// scraped are the metrics that are served: those of the process too, which the text file leaves to
// node_exporter's own.
func (e *Engine) scraped() *prometheus.Registry {
	registry := e.Registry()
	registry.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("weir_"+name, help, labels, nil)
}

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
)

// metric is a column as Prometheus takes it.
type metric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	scale float64
}

// roomMetrics are a room's columns, described once.
type roomMetrics struct{ rows, host []metric }

func describeRoom(r room.Room) *roomMetrics {
	columns := r.Columns()
	prefix, labels := columns.Prefix, []string{"scope"}
	if prefix == "" {
		prefix = r.Name()
	}
	if columns.Part != "" {
		labels = append(labels, columns.Part)
	}
	all := &roomMetrics{}
	for _, c := range columns.Rows {
		all.rows = append(all.rows, describeColumn(prefix, c, labels...))
	}
	for _, c := range columns.Host {
		all.host = append(all.host, describeColumn(prefix, c))
	}
	return all
}

// describeColumn follows Prometheus' habits: base units, octets rather than bits, _total behind
// counters.
func describeColumn(prefix string, c room.Column, labels ...string) metric {
	m := metric{kind: gauge, scale: 1}
	if c.Kind == room.Counter {
		m.kind = counter
	}
	suffix := map[room.Unit]string{room.Packets: "_packets", room.BitPerSecond: "_bytes_per_second", room.Seconds: "_seconds", room.Sockets: "_sockets"}[c.Unit]
	if c.Unit == room.BitPerSecond {
		m.scale = 1.0 / 8
	}
	if m.kind == counter {
		suffix += "_total"
	}
	name := c.Name + suffix
	if c.Metric != "" {
		name = c.Metric
	}
	m.desc = describe(prefix+"_"+name, c.Help, labels...)
	return m
}

// value makes a metric of one value; none where it is not known.
func (m metric) value(out chan<- prometheus.Metric, v room.Value, labels ...string) {
	switch {
	case !v.Known:
	case v.Histogram != nil:
		total, sum, buckets := histogram(v.Histogram.Counts)
		if v.Histogram.Sum > 0 {
			sum = v.Histogram.Sum
		}
		out <- prometheus.MustNewConstHistogram(m.desc, total, sum, buckets, labels...)
	default:
		out <- prometheus.MustNewConstMetric(m.desc, m.kind, v.Number*m.scale, labels...)
	}
}

// Describe sends nothing: which metrics there are depends on the policy.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect reads the state of the host.
func (c collector) Collect(out chan<- prometheus.Metric) {
	status, err := c.engine.Status()
	if err != nil {
		out <- prometheus.NewInvalidMetric(describe("enforced", "Whether what is in force is attached."), fmt.Errorf("read status: %w", err))
		return
	}
	collectSpine(out, status)
	escaped := c.escapes.of(c.engine, status)
	for _, s := range status.Scopes {
		state, _, _ := strings.Cut(s.State, ":")
		out <- prometheus.MustNewConstMetric(scopeState, gauge, 1, s.Name, strings.ReplaceAll(state, " ", "_"))
		if s.Parent != "" {
			out <- prometheus.MustNewConstMetric(scopeParent, gauge, 1, s.Name, s.Parent)
		}
		if n, known := escaped[s.Name]; known {
			out <- prometheus.MustNewConstMetric(scopeEscaped, gauge, float64(n), s.Name)
		}
	}
	for _, r := range status.Rooms {
		c.rooms[r.Room].collect(out, r)
	}
}

var (
	scopeState   = describe("scope_state", "1 for the state that the scope is in; not_attached and not_bound end with the next apply.", "scope", "state")
	scopeParent  = describe("scope_parent", "1 for the scope that a scope stands below.", "scope", "parent")
	buildInfo    = describe("build_info", "1 for the build of this Weir.", "version", "commit", "goversion")
	scopeEscaped = describe("limit_escaped_sockets", "Sockets that the scope's processes use and that belong to a cgroup outside it.", "scope")
)

// collectSpine is what there is to tell of the policy and its controller.
func collectSpine(out chan<- prometheus.Metric, status Status) {
	one := func(name, help string, value float64) {
		out <- prometheus.MustNewConstMetric(describe(name, help), gauge, value)
	}
	build := version.Read()
	out <- prometheus.MustNewConstMetric(buildInfo, gauge, 1, build.Version, build.Commit, build.Go)
	one("enforced", "Whether what is in force is attached.", truth(status.Enforced))
	one("apply_interrupted", "Whether an apply or a release was cut off and waits to be completed.", truth(status.Interrupted))
	if !status.Applied.IsZero() {
		one("policy_applied_timestamp_seconds", "When what is in force was applied.", seconds(status.Applied))
	}
	if d := status.Controller; d != nil {
		one("policy_file_in_force", "Whether the policy file could be applied as it is now.", truth(d.Problem == ""))
		one("controller_start_timestamp_seconds", "When the controller has started.", seconds(d.Started))
		one("controller_last_seen_timestamp_seconds", "When the controller was last at work; it has been away since then.", seconds(d.LastSeen))
		if !d.Before.IsZero() {
			one("controller_before_last_seen_timestamp_seconds", "When the controller before this one was last at work.", seconds(d.Before))
		}
	}
}

// collect is what one room has to tell.
func (m *roomMetrics) collect(out chan<- prometheus.Metric, status RoomStatus) {
	for i, v := range status.report.Host {
		m.host[i].value(out, v)
	}
	for _, row := range status.report.Rows {
		labels := []string{row.Scope}
		if status.Part != "" {
			labels = append(labels, row.Part)
		}
		for i, v := range row.Values {
			m.rows[i].value(out, v, labels...)
		}
	}
}

// lastBucket is the last one with a bound of its own: 2^24 µs, 16.8 s, beyond every default
// threshold.
const lastBucket = 23

// histogram makes a cumulative one, in seconds, of counts by powers of two of a microsecond. The
// sum takes every packet for the middle of its bucket.
func histogram(counts [32]uint64) (total uint64, sum float64, buckets map[float64]uint64) {
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

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1e3 }
