// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"slices"

	"weir/lab/domain"
	"weir/lab/run"
	"weir/lab/scenario"
	"weir/modules/ioam/node"
	"weir/record"
	"weir/record/hist"
	"weir/record/summary"
)

// domainSamples returns the figures of the nodes of an IOAM domain in a phase.
func domainSamples(a attempt, phase run.PhaseResult) []record.Sample {
	var samples []record.Sample
	var put, taken uint64
	ends := false
	hops := hopsOf(a.result.Cell, phase.Domain)
	for _, s := range phase.Domain {
		put, taken = put+s.Counts.Encapsulated, taken+s.Counts.Removed
		ends = ends || s.Counts.Removed > 0 || s.Collected != nil
		samples = append(samples, nodeSamples(a, s)...)
		samples = append(samples, edgeSamples(a, s)...)
		if h := hops[s.Node]; h != nil {
			samples = append(samples, hopSamples(a, s.Node, h)...)
		}
	}
	if ends && put > 0 && taken <= put {
		samples = append(samples, a.sample(scenario.Domain, scenario.IOAMLost, share(put-taken, put)))
	}
	return samples
}

func nodeSamples(a attempt, s domain.Status) []record.Sample {
	c := s.Counts
	samples := []record.Sample{
		a.sample(s.Node, scenario.IOAMEncapsulated, float64(c.Encapsulated)),
		a.sample(s.Node, scenario.IOAMLeftAlone, float64(c.LeftAlone)),
		a.sample(s.Node, scenario.IOAMRecorded, float64(c.Recorded)),
		a.sample(s.Node, scenario.IOAMRemoved, float64(c.Removed)),
		a.sample(s.Node, scenario.IOAMDropped, float64(c.Dropped)),
		a.sample(s.Node, scenario.IOAMUnread, float64(c.Unread)),
	}
	if c.Packets > 0 {
		samples = append(samples, a.sample(s.Node, scenario.IOAMShare, share(c.Encapsulated, c.Packets)))
	}
	return samples
}

// edgeSamples returns the figures of all flows with edge-to-edge options that end at a node.
func edgeSamples(a attempt, s domain.Status) []record.Sample {
	var sum node.Edge
	var delay float64
	for _, e := range s.Edges {
		sum.Packets, sum.Lost, sum.Reordered = sum.Packets+e.Packets, sum.Lost+e.Lost, sum.Reordered+e.Reordered
		delay += float64(e.Mean) * float64(e.Packets)
	}
	if sum.Packets == 0 {
		return nil
	}
	samples := []record.Sample{
		a.sample(s.Node, scenario.IOAMEdgePackets, float64(sum.Packets)),
		a.sample(s.Node, scenario.IOAMEdgeLost, share(sum.Lost, sum.Lost+sum.Packets)),
		a.sample(s.Node, scenario.IOAMEdgeReordered, share(sum.Reordered, sum.Packets)),
	}
	if delay != 0 {
		samples = append(samples, a.sample(s.Node, scenario.IOAMEdgeDelay, delay/float64(sum.Packets)/1e9))
	}
	return samples
}

// hopStats adds up the trace data of one node.
type hopStats struct {
	traces             uint64
	delay, link, queue hist.Histogram // nanoseconds, bytes
}

// hopsOf adds up the trace data of each node over all nodes that collect traces.
func hopsOf(cell *scenario.Cell, all []domain.Status) map[string]*hopStats {
	hops := map[string]*hopStats{}
	for _, s := range all {
		if s.Collected == nil {
			continue
		}
		for _, path := range s.Collected.Paths() {
			for i := range path.Hops {
				name := nodeOf(cell, path.Hops[i].Node)
				if hops[name] == nil {
					hops[name] = &hopStats{}
				}
				to := hops[name]
				to.traces += path.Packets
				to.delay.Merge(&path.Hops[i].Delay)
				to.link.Merge(&path.Hops[i].Link)
				to.queue.Merge(&path.Hops[i].Queue)
			}
		}
	}
	return hops
}

// nodeOf returns the name of the node with an id.
func nodeOf(cell *scenario.Cell, id uint64) string {
	for _, n := range cell.Nodes {
		if !n.IOAM.On() {
			continue
		}
		if short, wide := n.IOAM.Setup.IDs(); short == id || wide == id {
			return n.Name
		}
	}
	return ""
}

func hopSamples(a attempt, node string, h *hopStats) []record.Sample {
	samples := []record.Sample{a.sample(node, scenario.IOAMTraces, float64(h.traces))}
	for _, one := range []struct {
		of            *hist.Histogram
		min, p50, p99 string
	}{
		{&h.delay, scenario.IOAMDelayMin, scenario.IOAMDelayP50, scenario.IOAMDelayP99},
		{&h.link, scenario.IOAMHopMin, scenario.IOAMHopP50, scenario.IOAMHopP99},
	} {
		if one.of.Count() > 0 {
			samples = append(samples, a.sample(node, one.min, float64(one.of.Min())/1e9),
				a.sample(node, one.p50, float64(one.of.Quantile(0.5))/1e9), a.sample(node, one.p99, float64(one.of.Quantile(0.99))/1e9))
		}
	}
	if h.queue.Count() > 0 {
		samples = append(samples, a.sample(node, scenario.IOAMQueueP99, float64(h.queue.Quantile(0.99))))
	}
	return samples
}

var domainColumns = []column{
	{"with IOAM", scenario.IOAMEncapsulated, false, false},
	{"share", scenario.IOAMShare, false, true},
	{"left alone", scenario.IOAMLeftAlone, false, false},
	{"recorded", scenario.IOAMRecorded, false, false},
	{"removed", scenario.IOAMRemoved, false, false},
	{"dropped", scenario.IOAMDropped, false, false},
	{"unread", scenario.IOAMUnread, false, false},
	{"traces", scenario.IOAMTraces, false, false},
	{"in the node", scenario.IOAMDelayP50, false, false},
	{"p99", scenario.IOAMDelayP99, false, false},
	{"to the next", scenario.IOAMHopP50, false, false},
	{"p99 ", scenario.IOAMHopP99, false, false},
	{"queue p99", scenario.IOAMQueueP99, false, false},
	{"edge lost", scenario.IOAMEdgeLost, false, true},
	{"edge reordered", scenario.IOAMEdgeReordered, false, true},
	{"edge delay", scenario.IOAMEdgeDelay, true, false},
}

// domainTable shows the counters of the nodes of an IOAM domain and the data of their traces.
func domainTable(outcome *run.Outcome, rows []summary.Row) (record.Table, bool) {
	t := grid(outcome, rows, domainColumns)
	if len(t.Rows) == 0 {
		return t, false
	}
	if i := slices.Index(t.Columns, "flow"); i >= 0 {
		t.Columns[i] = "node"
	}
	t.Title = "IOAM nodes"
	t.Note = "Packets of whole phases; a GSO packet counts once. Times from traces: in the node, and from its reception to the reception at the next node."
	return t, true
}
