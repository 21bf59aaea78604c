// SPDX-License-Identifier: Apache-2.0

package rfc2544

// outcome is a result in short: whether it was measured.
type outcome struct {
	test   Test
	size   int
	reason string
}

// results lists every result of the report.
func (r Report) results() []outcome {
	var all []outcome
	for _, t := range r.Throughput {
		all = append(all, outcome{Throughput, t.Size, t.Reason})
	}
	for _, l := range r.Latency {
		all = append(all, outcome{Latency, l.Size, l.Reason})
	}
	for _, f := range r.FrameLoss {
		all = append(all, outcome{FrameLoss, f.Size, f.unmeasured()})
	}
	for _, b := range r.BackToBack {
		all = append(all, outcome{BackToBack, b.Size, b.Reason})
	}
	for _, v := range r.Recovery {
		all = append(all, outcome{Recovery, v.Size, v.Reason})
	}
	for _, v := range r.Reset {
		all = append(all, outcome{Reset, v.Size, v.Reason})
	}
	return all
}

// missing lists the requested results that a stopped benchmark did not reach.
func (r Report) missing() []outcome {
	if !r.Stopped {
		return nil
	}
	const reason = "the benchmark was stopped before"
	have := map[outcome]bool{}
	for _, v := range r.results() {
		have[outcome{test: v.test, size: v.size}] = true
	}
	var all []outcome
	for _, size := range r.Config.Sizes {
		for _, test := range r.Config.Tests {
			if test != Reset && !have[outcome{test: test, size: size}] {
				all = append(all, outcome{test, size, reason})
			}
		}
	}
	if r.Config.asked(Reset) && len(r.Reset) < len(r.Config.ResetKinds) {
		all = append(all, outcome{Reset, r.Config.Sizes[0], reason})
	}
	return all
}

// unmeasured returns the reason why a frame loss rate has no valid point, or "".
func (f LossResult) unmeasured() string {
	if f.Reason != "" {
		return f.Reason
	}
	reason := "no rate was tried"
	for _, p := range f.Points {
		if p.Reason == "" {
			return ""
		}
		reason = p.Reason
	}
	return reason
}
