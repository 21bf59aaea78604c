package daemon

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/limit"
	"weir/policy"
)

// collector reads the state of the host anew for every scrape; it keeps only what is dear to find out.
type collector struct {
	engine  *Engine
	escapes *escapes
}

// Registry returns the metrics of an engine; docs/formats/metrics.md describes them.
func (e *Engine) Registry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector{e, &escapes{}})
	return registry
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("weir_"+name, help, labels, nil)
}

// metric is one value of a direction of a scope.
type metric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*direction) float64
}

// direction is what is known of one direction of a scope.
type direction struct {
	name  string
	rate  *policy.Rate
	count *limit.Counters
	now   *limit.State
}

func (s ScopeStatus) directions() []direction {
	return []direction{{"egress", s.Scope.Egress, s.Egress, s.EgressNow}, {"ingress", s.Scope.Ingress, s.Ingress, s.IngressNow}}
}

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
)

func scopeMetric(name, help string, kind prometheus.ValueType, value func(*direction) float64) metric {
	return metric{describe("scope_"+name, help, "scope", "direction"), kind, value}
}

// scopeMetrics are read for every direction that is limited.
func scopeMetrics() []metric {
	counted := func(name, help string, value func(*limit.Counters) uint64) metric {
		return scopeMetric(name, help, counter, func(d *direction) float64 { return float64(value(d.count)) })
	}
	return []metric{
		counted("bytes_total", "Octets admitted, as the wire carries them.", func(c *limit.Counters) uint64 { return c.Bytes }),
		counted("packets_total", "Packets admitted, as the stack hands them over.", func(c *limit.Counters) uint64 { return c.Packets }),
		counted("segments_total", "Packets admitted, as the wire carries them.", func(c *limit.Counters) uint64 { return c.Segments }),
		counted("marked_packets_total", "Packets marked with congestion experienced.", func(c *limit.Counters) uint64 { return c.Marked }),
		counted("reductions_total", "Reductions of a congestion window asked for.", func(c *limit.Counters) uint64 { return c.Reduced }),
		counted("refused_packets_total", "Packets refused: egress gives them back to the sender, ingress drops them.", func(c *limit.Counters) uint64 { return c.Refused }),
		counted("forced_packets_total", "Packets admitted beyond the threshold because their sender had nothing in flight.", func(c *limit.Counters) uint64 { return c.Forced }),
		counted("receive_windows_total", "Receive windows of TCP sockets set, at ingress.", func(c *limit.Counters) uint64 { return c.Windows }),
		scopeMetric("limit_bytes_per_second", "The rate that the policy allows.", gauge, func(d *direction) float64 { return float64(d.rate.Rate) / 8 }),
		scopeMetric("allowed_bytes_per_second", "What the scope may use now: the limit, or less where it shares a parent.", gauge,
			func(d *direction) float64 { return float64(d.now.Allowed) / 8 }),
		scopeMetric("fair_rate_bytes_per_second", "The rate that one TCP flow is paced at.", gauge, func(d *direction) float64 { return float64(d.now.FairRate) / 8 }),
		scopeMetric("queue_seconds", "Length of the virtual queue now.", gauge, func(d *direction) float64 { return d.now.Queue.Seconds() }),
	}
}

// Describe sends nothing: which metrics there are depends on the policy.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect reads the state of the host.
func (c collector) Collect(out chan<- prometheus.Metric) {
	status, err := c.engine.Status()
	if err != nil {
		out <- prometheus.NewInvalidMetric(describe("enforced", "Whether limits are attached."), fmt.Errorf("read status: %w", err))
		return
	}
	one := func(name, help string, kind prometheus.ValueType, value float64) {
		out <- prometheus.MustNewConstMetric(describe(name, help), kind, value)
	}
	one("enforced", "Whether limits are attached.", gauge, truth(status.Enforced))
	one("apply_interrupted", "Whether an apply was cut off and waits to be completed.", gauge, truth(status.Interrupted))
	one("scope_overflow_packets_total", "Packets of more scopes than one packet can be charged to.", counter, float64(status.Overflow))
	if !status.Applied.IsZero() {
		one("policy_applied_timestamp_seconds", "When what is in force was applied.", gauge, seconds(status.Applied))
	}
	if d := status.Controller; d != nil {
		one("policy_file_in_force", "Whether the policy file could be applied as it is now.", gauge, truth(d.Problem == ""))
		one("controller_start_timestamp_seconds", "When the controller has started.", gauge, seconds(d.Started))
		one("controller_last_seen_timestamp_seconds", "When the controller was last at work; it has been away since then.", gauge, seconds(d.LastSeen))
		if !d.Before.IsZero() {
			one("controller_before_last_seen_timestamp_seconds", "When the controller before this one was last at work.", gauge, seconds(d.Before))
		}
	}
	metrics := scopeMetrics()
	escaped := c.escapes.of(c.engine, status)
	for _, scope := range status.Scopes {
		collectScope(out, scope, metrics)
		if n, known := escaped[scope.Scope.Name]; known {
			out <- prometheus.MustNewConstMetric(describe("limit_escaped_sockets", "Sockets that the scope's processes use and that belong to a cgroup outside it.", "scope"),
				gauge, float64(n), scope.Scope.Name)
		}
	}
}

func collectScope(out chan<- prometheus.Metric, scope ScopeStatus, metrics []metric) {
	name := scope.Scope.Name
	state, _, _ := strings.Cut(scope.State, ":")
	out <- prometheus.MustNewConstMetric(describe("scope_state", "1 for the state that the scope is in; not_attached and not_bound end with the next apply.", "scope", "state"), gauge, 1, name, strings.ReplaceAll(state, " ", "_"))
	for _, d := range scope.directions() {
		if d.rate == nil || d.count == nil || d.now == nil {
			continue
		}
		if d.rate.Weight > 0 {
			for desc, value := range map[*prometheus.Desc]float64{
				describe("scope_min_bytes_per_second", "What the parent keeps for the scope.", "scope", "direction", "parent"):             float64(d.rate.Min) / 8,
				describe("scope_weight", "The scope's part of its parent, against its siblings' weights.", "scope", "direction", "parent"): float64(d.rate.Weight),
			} {
				out <- prometheus.MustNewConstMetric(desc, gauge, value, name, d.name, scope.Scope.Parent)
			}
		}
		for _, m := range metrics {
			out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(&d), name, d.name)
		}
		total, sum, buckets := histogram(d.count.Queue)
		out <- prometheus.MustNewConstHistogram(describe("scope_queue_time_seconds",
			"Virtual queue that packets have met, their own time included; the sum is an estimate from the buckets.", "scope", "direction"),
			total, sum, buckets, name, d.name)
		total, _, buckets = histogram(d.count.RTT)
		out <- prometheus.MustNewConstHistogram(describe("scope_round_trip_time_seconds", "Round-trip times that the scope's TCP senders have measured.", "scope", "direction"),
			total, float64(d.count.RTTSum)/1e6, buckets, name, d.name)
	}
}

// lastBucket is the last one with a bound of its own: 2^24 µs, 16.8 s, beyond every default threshold.
const lastBucket = 23

// histogram makes a cumulative one, in seconds, of counts by powers of two of a microsecond. The sum takes every packet for
// the middle of its bucket.
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
