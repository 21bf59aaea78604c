// SPDX-License-Identifier: Apache-2.0

// Package evidence converts records of nodes to a bundle: samples and distributions of paths, hops,
// flows and edges, and tables. It is pure.
//
// Pitfalls: times between nodes depend on their clocks. The packets are those that were read:
// sampling and a full ring buffer reduce them.
package evidence

import (
	"fmt"
	"strconv"
	"time"

	"weir/modules/ioam/collect"
	"weir/record"
	"weir/record/hist"
)

// MaxFlows is the maximum number of flows in a bundle, largest first. [collect.MaxSentPaths] and
// [collect.MaxSentEdges] limit paths and edges.
const MaxFlows = 1000

// Reading holds the records from Started to Finished.
type Reading struct {
	Summary           *collect.Summary
	Edges             []collect.EdgeTotals // flows since Started, most important first
	Senseless         uint64               // invalid records
	Started, Finished time.Time
	To                string // "": packets to all destinations
}

// Bundle returns the reading as evidence. The command adds machine, version and command line to the
// manifest. It shares the histograms of the summary.
func Bundle(r Reading) record.Bundle {
	flows, paths, edges := r.Summary.Flows(), r.Summary.Paths(), r.Edges
	b := record.Bundle{Manifest: record.Manifest{Format: record.FormatBundle, Kind: "ioam", Name: "watch", Started: r.Started, Finished: r.Finished, Notes: r.notes()}}
	if r.To != "" {
		b.Manifest.Parameters = map[string]string{"to": r.To}
	}
	b.Samples = r.totals()
	b.Tables = []record.Table{pathTable(paths), hopTable(paths), flowTable(flows)}
	for _, p := range paths[:min(len(paths), collect.MaxSentPaths)] {
		addPath(&b, p)
	}
	for _, f := range flows[:min(len(flows), MaxFlows)] {
		b.Samples = append(b.Samples, flowSamples(f)...)
	}
	for i := range edges[:min(len(edges), collect.MaxSentEdges)] {
		b.Samples = append(b.Samples, edgeSamples(&edges[i])...)
	}
	if len(edges) > 0 {
		b.Tables = append(b.Tables, edgeTable(edges))
	}
	return b
}

// notes returns notes for the reader.
func (r *Reading) notes() (all []string) {
	note := func(n int, format string) {
		if n > 0 {
			all = append(all, fmt.Sprintf(format, n))
		}
	}
	if r.Summary.Packets == 0 {
		all = append(all, "No packet came.")
	}
	note(int(r.Senseless), "%d invalid records.")
	note(int(r.Summary.Beyond), "%d packets are of more flows or paths than are kept.")
	note(len(r.Summary.Flows())-MaxFlows, "%d flows with fewer octets are left out.")
	note(len(r.Summary.Paths())-collect.MaxSentPaths, "%d paths with fewer packets are left out.")
	note(len(r.Edges)-collect.MaxSentEdges, "%d flows with edge-to-edge options and fewer packets are left out.")
	var backwards uint64
	for _, p := range r.Summary.Paths() {
		for i := range p.Hops {
			backwards += p.Hops[i].Backwards
		}
	}
	note(int(backwards), "%d times a node received a packet before the one in front of it, by their clocks: synchronise them.")
	return all
}

func sample(labels record.Labels, subject, metric string, unit record.Unit, value float64) record.Sample {
	return record.Sample{Labels: labels, Subject: subject, Metric: metric, Unit: unit, Repetition: 1, Attempt: 1, Value: value, Valid: true}
}

func (r *Reading) totals() (all []record.Sample) {
	for _, c := range []struct {
		metric string
		is     uint64
	}{{"ioam_packets", r.Summary.Packets}, {"ioam_overflow", r.Summary.Overflow}, {"ioam_proven", r.Summary.Proven}, {"ioam_disproven", r.Summary.Not}} {
		all = append(all, sample(nil, "aggregate", c.metric, record.Count, float64(c.is)))
	}
	return all
}

// addPath adds a path and its hops.
func addPath(b *record.Bundle, p *collect.Path) {
	labels := record.Labels{"namespace": strconv.Itoa(int(p.Namespace)), "path": p.String()}
	add := func(subject, metric string, unit record.Unit, value float64) {
		b.Samples = append(b.Samples, sample(labels, subject, metric, unit, value))
	}
	spread := func(subject, metric string, h *hist.Histogram) {
		if h.Count() == 0 {
			return
		}
		add(subject, metric+"_min", record.Seconds, float64(h.Min())/1e9)
		add(subject, metric+"_p50", record.Seconds, float64(h.Quantile(0.5))/1e9)
		add(subject, metric+"_p99", record.Seconds, float64(h.Quantile(0.99))/1e9)
		b.Distributions = append(b.Distributions, record.Distribution{Labels: labels, Subject: subject, Metric: metric, Unit: record.Seconds,
			Repetition: 1, Attempt: 1, Valid: true, Histogram: h})
	}
	add("path", "ioam_traces", record.Count, float64(p.Packets))
	spread("path", "ioam_path", &p.Whole)
	for i := range p.Hops {
		h, subject := &p.Hops[i], Hop(p, i)
		spread(subject, "ioam_delay", &h.Delay)
		spread(subject, "ioam_hop", &h.Link)
		if h.Queue.Count() > 0 {
			add(subject, "ioam_queue_p99", record.Bytes, float64(h.Queue.Quantile(0.99)))
		}
		if h.Backwards > 0 {
			add(subject, "ioam_backwards", record.Count, float64(h.Backwards))
		}
	}
}

// Hop returns the subject of a hop of a path; repeated nodes are distinguished.
func Hop(p *collect.Path, i int) string { return fmt.Sprintf("hop %d, node %d", i+1, p.Hops[i].Node) }

func flowSamples(f *collect.FlowStats) []record.Sample {
	labels, subject := record.Labels{}, f.Flow.String()
	if f.Path != nil {
		labels["namespace"], labels["path"] = strconv.Itoa(int(f.Path.Namespace)), f.Path.String()
	}
	return []record.Sample{
		sample(labels, subject, "ioam_flow_packets", record.Count, float64(f.Packets)),
		sample(labels, subject, "ioam_flow_octets", record.Bytes, float64(f.Octets)),
		sample(labels, subject, "ioam_flow_changes", record.Count, float64(f.Changes)),
	}
}

func edgeSamples(e *collect.EdgeTotals) []record.Sample {
	labels, subject := record.Labels{"namespace": strconv.Itoa(int(e.Namespace))}, e.Flow.String()
	all := []record.Sample{sample(labels, subject, "ioam_edge_packets", record.Count, float64(e.Packets))}
	if e.Packets > 0 {
		all = append(all, sample(labels, subject, "ioam_edge_lost", record.Share, float64(e.Lost)/float64(e.Packets+e.Lost)),
			sample(labels, subject, "ioam_edge_reordered", record.Share, float64(e.Reordered)/float64(e.Packets)))
	}
	if e.Stamped > 0 {
		all = append(all, sample(labels, subject, "ioam_edge_delay", record.Seconds, float64(e.Delay)/float64(e.Stamped)/1e9))
	}
	return all
}
