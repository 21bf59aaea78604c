// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"weir/core/engine"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"weir/core/module"
	"weir/internal/version"
)

// Described describes a metric for documents.
type Described struct {
	Name, Type, Help string
	Labels           []string
}

// Describe returns the metrics of a module.
func Describe(r module.Module) (described []Described) {
	all := describeModule(r)
	for _, m := range all.rows {
		labels := []string{"scope"}
		if part := r.Columns().Part; part != "" {
			labels = append(labels, part)
		}
		described = append(described, Described{m.name, m.kind, m.help, labels})
	}
	for _, m := range all.host {
		described = append(described, Described{m.name, m.kind, m.help, nil})
	}
	return described
}

// metric is a Prometheus metric family; docs/formats/metrics.md lists all of them.
type metric struct {
	name, help, kind string
	scale            float64 // of a module's values
}

func describe(name, help string) metric {
	return metric{name: "weir_" + name, help: help, kind: "gauge", scale: 1}
}

// moduleMetrics holds the metrics of a module's columns.
type moduleMetrics struct{ rows, host []metric }

func describeModule(r module.Module) *moduleMetrics {
	columns := r.Columns()
	prefix := cmp.Or(columns.Prefix, r.Name())
	all := &moduleMetrics{}
	for _, c := range columns.Rows {
		all.rows = append(all.rows, describeColumn(prefix, c))
	}
	for _, c := range columns.Host {
		all.host = append(all.host, describeColumn(prefix, c))
	}
	return all
}

// describeColumn follows Prometheus' conventions: base units, bytes instead of bits, _total for
// counters.
func describeColumn(prefix string, c module.Column) metric {
	suffix := map[module.Unit]string{module.Packets: "_packets", module.BitPerSecond: "_bytes_per_second", module.Seconds: "_seconds", module.Sockets: "_sockets"}[c.Unit]
	if c.Kind == module.Counter {
		suffix += "_total"
	}
	m := describe(prefix+"_"+cmp.Or(c.Metric, c.Name+suffix), c.Help)
	m.kind = string(c.Kind)
	if c.Unit == module.BitPerSecond {
		m.scale = 1.0 / 8
	}
	return m
}

// gathered is one reading of the host for metrics. It is immutable, so concurrent scrapes
// need no lock.
type gathered struct {
	core    []point
	scopes  []scopePoint
	modules []modulePoints
	process []*dto.MetricFamily // sorted by name
}

// point is a metric with one sample.
type point struct {
	metric
	labels [][2]string
	value  float64
}

// scopePoint is core's data of a scope.
type scopePoint struct {
	name, state, parent string
	escaped             int // -1 if unknown
}

type modulePoints struct {
	*moduleMetrics
	part   string
	report module.Report
}

// gather reads the host.
func gather(e *engine.Engine, x *escapes) (*gathered, error) {
	status, err := e.ReadStatus()
	if err != nil {
		return nil, fmt.Errorf("read status: %w", err)
	}
	g := &gathered{core: corePoints(status)}
	escaped := x.of(e, status)
	for _, s := range status.Scopes {
		state, _, _ := strings.Cut(s.State, ":")
		one := scopePoint{s.Name, strings.ReplaceAll(state, " ", "_"), s.Parent, -1}
		if n, known := escaped[s.Name]; known {
			one.escaped = n
		}
		g.scopes = append(g.scopes, one)
	}
	for _, r := range e.Modules {
		for _, s := range status.Modules {
			if s.Module == r.Name() {
				g.modules = append(g.modules, modulePoints{describeModule(r), s.Part, s.Report})
			}
		}
	}
	return g, nil
}

var (
	scopeState   = describe("scope_state", "1 for the current state of the scope; the next apply ends not_attached and not_bound.")
	scopeParent  = describe("scope_parent", "1 for the parent of the scope.")
	buildInfo    = describe("build_info", "1 for the build of this Weir.")
	scopeEscaped = describe("limit_escaped_sockets", "Sockets used by the scope's processes and charged to a cgroup outside it.")
)

// corePoints returns the metrics of the policy and its controller.
func corePoints(status engine.Status) (all []point) {
	one := func(name, help string, value float64) {
		all = append(all, point{metric: describe(name, help), value: value})
	}
	build := version.Read()
	all = append(all, point{buildInfo, [][2]string{{"commit", build.Commit}, {"goversion", build.Go}, {"version", build.Version}}, 1})
	one("enforced", "1 if the active policy is attached.", truth(status.Enforced))
	one("apply_interrupted", "1 if an apply or release was interrupted and awaits completion.", truth(status.Interrupted))
	if !status.Applied.IsZero() {
		one("policy_applied_timestamp_seconds", "Time of the last apply.", seconds(status.Applied))
	}
	if d := status.Controller; d != nil {
		one("policy_file_in_force", "1 if the current policy file could be applied.", truth(d.Problem == ""))
		one("controller_start_timestamp_seconds", "Start time of the controller.", seconds(d.Started))
		one("controller_last_seen_timestamp_seconds", "Last heartbeat of the controller.", seconds(d.LastSeen))
		if !d.Before.IsZero() {
			one("controller_before_last_seen_timestamp_seconds", "Last heartbeat of the previous controller.", seconds(d.Before))
		}
	}
	return all
}

// family is a metric and the function that writes its samples.
type family struct {
	metric
	write func(*exposition)
}

// families returns all families by name.
func (g *gathered) families() (all []family) {
	for _, p := range g.core {
		all = append(all, family{p.metric, func(x *exposition) {
			for _, l := range p.labels {
				x.label(l[0], l[1])
			}
			x.sample(p.value)
			x.clear()
		}})
	}
	all = append(all, g.ofScopes(scopeState, func(s scopePoint) (label, value string, v float64, known bool) { return "state", s.state, 1, true }),
		g.ofScopes(scopeParent, func(s scopePoint) (label, value string, v float64, known bool) {
			return "parent", s.parent, 1, s.parent != ""
		}),
		g.ofScopes(scopeEscaped, func(s scopePoint) (label, value string, v float64, known bool) {
			return "", "", float64(s.escaped), s.escaped >= 0
		}))
	for _, r := range g.modules {
		all = append(all, r.families()...)
	}
	slices.SortStableFunc(all, func(a, b family) int { return cmp.Compare(a.name, b.name) })
	return all
}

// ofScopes is a family with at most one sample per scope and a second label.
func (g *gathered) ofScopes(m metric, of func(scopePoint) (label, value string, v float64, known bool)) family {
	return family{m, func(x *exposition) {
		for _, s := range g.scopes {
			label, value, v, known := of(s)
			if !known {
				continue
			}
			x.rowLabels(s.name, label, value)
			x.sample(v)
			x.clear()
		}
	}}
}

// rowLabels sets a scope's label, and perhaps another one, by name.
func (x *exposition) rowLabels(scope, label, value string) {
	if label != "" && label < "scope" {
		x.label(label, value)
	}
	x.label("scope", scope)
	if label > "scope" {
		x.label(label, value)
	}
}

// families iterates the rows once per column: the format keeps the samples of a family together.
func (r modulePoints) families() (all []family) {
	for i, v := range r.report.Host {
		all = append(all, family{r.host[i], func(x *exposition) { x.value(v) }})
	}
	for i, m := range r.rows {
		all = append(all, family{m, func(x *exposition) {
			for _, row := range r.report.Rows {
				if row.Values == nil {
					continue
				}
				x.rowLabels(row.Scope, r.part, row.Part)
				x.value(row.Values[i])
				x.clear()
			}
		}})
	}
	return all
}

// write writes all families.
func (g *gathered) write(to io.Writer) error {
	for _, f := range g.process { // their names precede ours
		if _, err := expfmt.MetricFamilyToText(to, f); err != nil {
			return err
		}
	}
	x := newExposition(to)
	for _, f := range g.families() {
		if x.begin(f.metric); x.err != nil {
			break
		}
		f.write(x)
	}
	return x.close()
}

// WriteMetrics writes the metrics of the active policy, without those of the process.
func WriteMetrics(e *engine.Engine, to io.Writer) error {
	g, err := gather(e, &escapes{})
	if err != nil {
		return err
	}
	return g.write(to)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1e3 }
