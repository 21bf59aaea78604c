// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"math"
	"strings"
	"time"

	"weir/lab/fidelity"
	"weir/lab/run"
	"weir/record"
)

// proofs returns the evidence for the validity of every valid run.
func proofs(outcome *run.Outcome) (all []record.Proof) {
	for i := range outcome.Results {
		if r := &outcome.Results[i]; r.Valid && r.Judgement.Witness != nil {
			all = append(all, proof(r))
		}
	}
	return all
}

func proof(r *run.Result) record.Proof {
	j, w := r.Judgement, r.Judgement.Witness
	p := record.Proof{Labels: r.Cell.Labels, Repetition: r.Repetition, Attempt: r.Attempt,
		Configuration: w.Configuration, Settings: w.Settings, Namespaces: w.Namespaces, Frames: w.Frames,
		LatenessP50: j.LatenessP50.Seconds(), LatenessP99: j.LatenessP99.Seconds(), Stall: j.Stall.Seconds(), Behind: j.Behind.Seconds(),
		Pause: w.Pause.Seconds()}
	for _, b := range w.Links {
		l := record.ProofLink{Link: b.Link, From: b.From, To: b.To, Sent: b.Sent, Received: b.Received, QueueDrops: b.QueueDrops,
			LossDrops: b.LossDrops, Duplicated: b.Duplicated, Passed: b.Counters.Sent, Arrived: b.Arrived,
			SentOctets: b.SentOctets, PassedOctets: b.SentBytes, ArrivedOctets: b.ArrivedOctets}
		calibrated(&l, r, b.Reverse)
		p.Links = append(p.Links, l)
	}
	p.Why = why(p, r)
	return p
}

// calibrated adds a direction's requested properties and the calibrated ones.
func calibrated(l *record.ProofLink, r *run.Result, reverse bool) {
	for _, link := range r.Cell.Links {
		if link.Name != l.Link {
			continue
		}
		asked := link.Forward
		if reverse {
			asked = link.Reverse
		}
		l.RateAsked, l.DelayAsked = float64(asked.Rate), asked.Delay.Seconds()
	}
	for _, c := range r.Calibrations {
		if c.Link == l.Link {
			m := onePath(c, reverse)
			l.Rate, l.Delay, l.Loss = float64(m.Rate), m.DelayMedian.Seconds(), m.Loss
		}
	}
}

func onePath(c fidelity.Calibration, reverse bool) fidelity.Measured {
	if reverse {
		return c.Reverse
	}
	return c.Forward
}

// why formats the report's line: calibration, conservation, lateness, configuration.
func why(p record.Proof, r *run.Result) string {
	var parts []string
	if len(p.Links) > 0 {
		parts = append(parts, calibrationText(p.Links), conservationText(p))
	} else if p.Frames > 0 {
		parts = append(parts, fmt.Sprintf("%d packets sent, and all of them taken", p.Frames))
	}
	if r.Judgement.LatenessP99 > 0 {
		parts = append(parts, fmt.Sprintf("frames sent %s late at most but for 1 %%, and none left waiting for longer than %s",
			r.Judgement.LatenessP99.Round(time.Microsecond), waited(r.Judgement.Stall)))
	}
	parts = append(parts, fmt.Sprintf("%d settings of %d namespaces as they were built from start to end (sum %.12s)", p.Settings, p.Namespaces, p.Configuration))
	return strings.Join(parts, "; ")
}

func waited(stall time.Duration) string {
	if stall == 0 {
		return "1 ms"
	}
	return stall.Round(100 * time.Microsecond).String()
}

func calibrationText(links []record.ProofLink) string {
	var rate, delay float64
	for _, l := range links {
		if l.RateAsked > 0 && l.Rate > 0 {
			rate = max(rate, math.Abs(l.Rate/l.RateAsked-1))
		}
		if l.Delay > 0 {
			delay = max(delay, math.Abs(l.Delay-l.DelayAsked))
		}
	}
	return fmt.Sprintf("%d directions of links calibrated, rates within %.2f %% and delays within %s of the requested ones", len(links), 100*rate, record.Seconds.Format(delay))
}

func conservationText(p record.Proof) string {
	var sent, lost, dropped, doubled, arrived uint64
	for _, l := range p.Links {
		sent, lost, dropped, doubled, arrived = sent+l.Sent, lost+l.LossDrops, dropped+l.QueueDrops, doubled+l.Duplicated, arrived+l.Arrived
	}
	text := fmt.Sprintf("of %d frames sent over links %d arrived, %d were lost on purpose and %d dropped by full queues, none otherwise", sent, arrived, lost, dropped)
	if doubled > 0 {
		text += fmt.Sprintf(" (%d were doubled)", doubled)
	}
	return text
}
