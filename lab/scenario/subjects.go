// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"slices"
	"strconv"

	"weir/internal/nearest"
	"weir/internal/yamlfile"
	"weir/lab/traffic"
)

const trySolo = "add \"solo: true\" to the phase with contending flows"

// known looks a metric up; an unknown one has no name.
func (j *judge) known(f yamlfile.Fields, path, name string) Metric {
	m, known, near := FindMetric(name)
	if !known {
		hint := ""
		if near != "" {
			hint = fmt.Sprintf(" (did you mean %q?)", near)
		}
		j.complain(f.At("metric"), "docs/formats/scenario.md lists the metrics", "%s.metric: unknown metric %q%s", path, name, hint)
	}
	return m
}

// each resolves the subjects of an expectation; ok reports that it is valid for all of them.
func (j *judge) each(e expectFile, path string) (m Metric, subjects []string, ok bool) {
	given := e.Subject
	ok = !e.Has("subject") || len(given) > 0
	if !ok {
		j.complain(e.At("subject"), "name one, or leave the key out", "%s.subject: the list is empty", path)
	} else if len(given) == 0 {
		given = wordList{""}
	}
	for _, name := range given {
		known, subject, right := j.metric(e.Fields, path, e.Metric, name)
		m, ok = known, ok && right
		if right && slices.Contains(subjects, subject) {
			j.complain(e.At("subject"), "", "%s.subject: %q is given twice", path, subject)
			ok = false
		}
		subjects = append(subjects, subject)
		if known.Name == "" {
			break
		}
	}
	return m, subjects, ok
}

// metric looks a metric up and resolves its subject.
func (j *judge) metric(f yamlfile.Fields, path, name, subject string) (Metric, string, bool) {
	m := j.known(f, path, name)
	if m.Name == "" {
		return m, "", false
	}
	candidates := j.subjects(m)
	switch {
	case m.Name == Harm && len(candidates) == 0:
		j.contended(f, path)
	case subject == "" && len(candidates) == 0:
		j.complain(f.At("metric"), "", "%s.metric: no flow of the scenario has a %s", path, name)
	case subject == "" && len(candidates) > 1 && candidates[0] != Aggregate:
		j.complain(f.Self, "add a subject", "%s: %q is a figure of each of several; say which by subject: %s", path, name, quoted(candidates))
	case subject == "":
		return m, candidates[0], true
	case !slices.Contains(candidates, subject):
		j.complain(f.At("subject"), "", "%s.subject: %q has no %s%s", path, subject, name, subjectHint(subject, candidates))
	default:
		return m, subject, true
	}
	return m, "", false
}

// contended reports a scenario without a flow that has a harm.
func (j *judge) contended(f yamlfile.Fields, path string) {
	if !slices.ContainsFunc(j.cell.Phases, func(p Phase) bool { return p.Solo }) {
		j.complain(f.At("metric"), trySolo, "%s.metric: %s compares a flow with a run of the flow alone, and no phase asks for such runs", path, Harm)
	}
}

func subjectHint(subject string, candidates []string) string {
	if hint := nearest.Hint(subject, candidates); hint != "" {
		return hint
	}
	return "; these do: " + quoted(candidates)
}

func quoted(list []string) string {
	out := ""
	for i, s := range list {
		if i > 0 {
			out += ", "
		}
		out += strconv.Quote(s)
	}
	return out
}

// subjects lists the subjects of the metric in this scenario; the first is the default.
func (j *judge) subjects(m Metric) (all []string) {
	if m.Of == OfRun || slices.Contains([]string{Goodput, RetransmitShare, LossEventRate}, m.Name) {
		all = append(all, Aggregate)
	}
	if m.Of == OfRun {
		return all
	}
	if m.Of == OfLink || m.Name == SeriesQueue {
		for _, l := range j.cell.Links {
			if !l.Plain {
				all = append(all, LinkSubject(l.Name, false), LinkSubject(l.Name, true))
			}
		}
		return all
	}
	if m.Of == OfLimit {
		for _, l := range j.cell.Limits {
			all = append(all, l.Name)
		}
		return all
	}
	if m.Of == OfNode {
		return j.cell.domain(m.Name)
	}
	for _, phase := range j.cell.Phases {
		if m.Name == Harm && !phase.Solo {
			continue
		}
		if m.Of == OfProcedure {
			if phase.Procedure != nil {
				all = append(all, phase.Procedure.Name)
			}
			continue
		}
		for _, f := range phase.Flows {
			switch {
			case m.Of == OfStream || m.kinds() != nil && !slices.Contains(m.kinds(), f.Kind):
			case m.bySize():
				all = append(all, TransferSubjects(f.Name)...)
			default:
				all = append(all, f.Name)
			}
		}
		for _, s := range phase.Streams {
			if m.Of == OfStream {
				all = append(all, s.Name)
			}
		}
	}
	return all
}

// kinds returns the kinds of flow that have a metric; nil means all.
func (m Metric) kinds() []traffic.Kind {
	switch m.Name {
	case ExchangesPerSecond, ExchangeGoodput, ExchangeP50, ExchangeP99, ExchangeP999:
		return []traffic.Kind{traffic.Request}
	case UDPLoss, UDPDuplicates, UDPReordered:
		return []traffic.Kind{traffic.Datagram}
	case TransfersBegun, TransfersCompleted, TransfersUnfinished, TransferMean, TransferP50, TransferP99, TransferP999,
		SlowdownP50, SlowdownP99, TransferLateness:
		return []traffic.Kind{traffic.Transfers}
	case Goodput, SeriesRate:
		return []traffic.Kind{traffic.Bulk, traffic.Datagram, traffic.Program, traffic.Transfers}
	case FlowShare, Harm:
		return []traffic.Kind{traffic.Bulk, traffic.Datagram, traffic.Program}
	case SRTTMean, SRTTp50, SRTTp99, RetransmitShare, LossEventRate, MarkedShare:
		return []traffic.Kind{traffic.Bulk, traffic.Request, traffic.Transfers}
	case ReportedRate:
		return []traffic.Kind{traffic.Program}
	case Completion:
		return []traffic.Kind{traffic.Bulk, traffic.Program}
	case PredictedMathis, PredictedPFTK, PredictedCUBIC, PredictedRatio, ResidualMathis, ResidualPFTK, ResidualCUBIC,
		CubicRegion, WindowLimited:
		return []traffic.Kind{traffic.Bulk}
	}
	return []traffic.Kind{traffic.Bulk, traffic.Request}
}

// bySize reports whether a metric of transfers also exists for each class of size.
func (m Metric) bySize() bool {
	kinds := m.kinds()
	return len(kinds) == 1 && kinds[0] == traffic.Transfers && m.Name != TransferLateness
}
