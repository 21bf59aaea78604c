// SPDX-License-Identifier: Apache-2.0

package rfc2544

import (
	"fmt"
	"strconv"
	"time"

	"weir/internal/units"
	"weir/record"
	"weir/record/stats"
	"weir/tester"
)

const dash = "–"

func frameRate(v float64) string { return strconv.FormatFloat(v, 'f', 0, 64) }

// bits returns the rate on the medium of a frame rate: preamble and gap included.
func bits(rate float64, size int) string {
	return units.BitRate(rate * float64(size+tester.WireOverhead) * 8).String()
}

// seconds prints a time with three or four figures.
func seconds(v float64) string {
	d := time.Duration(v * 1e9)
	switch {
	case d >= time.Second:
		return d.Round(time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d >= time.Microsecond:
		return d.Round(10 * time.Nanosecond).String()
	}
	return d.String()
}

// orReason returns text, or the reason for its absence.
func orReason(reason, text string) string {
	if reason != "" {
		return "not measured: " + reason
	}
	return text
}

func (r Report) throughputTable() record.Table {
	t := record.Table{
		Title:   "Throughput",
		Note:    "RFC 2544 section 26.1: the highest rate that lost no frame in a valid trial of " + r.Config.FinalTime.String() + r.perDirection(),
		Columns: []string{"frame size", "frame/s", "on the medium", "maximum frame/s", "share", "limited by"},
	}
	for _, v := range r.Throughput {
		row := []string{strconv.Itoa(v.Size), dash, dash, dash, dash, orReason(v.Reason, limitText(v))}
		if v.Theoretical > 0 {
			row[3] = frameRate(v.Theoretical)
		}
		if v.Measured() {
			row[1], row[2] = frameRate(v.Rate), bits(v.Rate, v.Size)
			if v.Theoretical > 0 {
				row[4] = fmt.Sprintf("%.1f %%", 100*v.Rate/v.Theoretical)
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func limitText(t ThroughputResult) string {
	switch {
	case t.Limit == ByLine:
		return "the medium"
	case t.Limit == ByTester && t.Because != "":
		return "the tester, the device may do more; above it: " + t.Because
	case t.Limit == ByTester:
		return "the tester: the device may do more"
	}
	if t.Losses.Frames == 0 {
		return "the device"
	}
	return fmt.Sprintf("the device; lost frames: %s; the tester offered %.0f frame/s", t.Losses, t.Offers)
}

func (r Report) perDirection() string {
	if r.Config.Bidirectional {
		return "; bidirectional, rates are those of each direction"
	}
	return ""
}

func (r Report) latencyTable() record.Table {
	t := record.Table{
		Title: "Latency",
		Note: fmt.Sprintf("RFC 2544 section 26.2 at the throughput rate, mean of %d runs of %s with its 95 %% interval; from the stamp in the generator "+
			"to the analyzer's hook at the receiving device (a software tester sees neither first nor last bit: compare with a run without the device)", r.Config.LatencyRuns, r.Config.LatencyTime),
		Columns: []string{"frame size", "frame/s", "latency", "±", "p50", "p99", "max", "lost", "remark"},
	}
	for _, v := range r.Latency {
		row := []string{strconv.Itoa(v.Size), frameRate(v.Rate), dash, dash, dash, dash, dash, dash, orReason(v.Reason, "")}
		if v.Reason == "" {
			e := v.Estimate()
			row[2] = seconds(e.Mean)
			if low, high, ok := e.Interval(); ok {
				row[3] = seconds((high - low) / 2)
			}
			row[4], row[5], row[6] = nanoseconds(v.Delays.Quantile(0.5)), nanoseconds(v.Delays.Quantile(0.99)), nanoseconds(v.Delays.Max())
			lost := uint64(0)
			for _, run := range v.Runs {
				lost += run.Lost
			}
			row[7] = strconv.FormatUint(lost, 10)
			if v.Batched {
				row[8] = "sent in batches: the wait in a batch is included"
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func nanoseconds(v uint64) string { return seconds(float64(v) / 1e9) }

func (r Report) lossTable() record.Table {
	t := record.Table{
		Title: "Frame loss rate", Note: "RFC 2544 section 26.3: down from 100 % until two rates lose nothing; trials of " + r.Config.LossTime.String(),
		Columns: []string{"frame size", "% of maximum", "offered frame/s", "lost %", "remark"},
	}
	for _, v := range r.FrameLoss {
		if v.Reason != "" {
			t.Rows = append(t.Rows, []string{strconv.Itoa(v.Size), dash, dash, dash, orReason(v.Reason, "")})
		}
		for _, p := range v.Points {
			row := []string{strconv.Itoa(v.Size), fmt.Sprintf("%.0f", p.Percent), frameRate(p.Offered), dash, ""}
			if p.Offered == 0 {
				row[2] = dash
			}
			if p.Reason == "" {
				row[3] = strconv.FormatFloat(100*p.Loss, 'g', 4, 64)
			} else {
				row[4] = "not valid: " + p.Reason
			}
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}

func (r Report) burstTable() record.Table {
	t := record.Table{
		Title: "Back-to-back frames",
		Note: fmt.Sprintf("RFC 9004: binary search with loss verification, N = %d repetitions, smallest step %d frames, a failing burst repeated %d times, bursts up to %s",
			r.Config.BurstRuns, max(r.Config.BurstStep, 1), r.Config.Verify, r.Config.MaxBurst),
		Columns: []string{"frame size", "average frames", "min", "max", "standard deviation", "implied buffer", "corrected buffer", "remark"},
	}
	for _, v := range r.BackToBack {
		row := []string{strconv.Itoa(v.Size), dash, dash, dash, dash, dash, dash, orReason(v.Reason, "")}
		if v.Reason == "" {
			e := stats.Of(v.Lengths)
			row[1], row[2], row[3] = frameRate(e.Mean), frameRate(lowest(v.Lengths)), frameRate(-lowest(negated(v.Lengths)))
			if e.StdDev != nil {
				row[4] = frameRate(*e.StdDev)
			}
			row[5], row[6] = seconds(v.Implied(e.Mean)), seconds(v.Corrected(e.Mean))
			if v.AtLimit {
				row[7] = "at the search's limit: repeat with longer bursts"
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func (r Report) recoveryTable() record.Table {
	t := record.Table{
		Title: "System recovery", Note: fmt.Sprintf("RFC 2544 section 26.5: %s of overload, then half of it; time to the last lost frame, slowest direction", r.Config.OverloadTime),
		Columns: []string{"frame size", "throughput frame/s", "overload frame/s", "recovery", "remark"},
	}
	for _, v := range r.Recovery {
		row := []string{strconv.Itoa(v.Size), frameRate(v.Rate), frameRate(v.Overload), dash, orReason(v.Reason, "")}
		if v.Reason == "" {
			row[3] = seconds(stats.Of(v.Times).Mean)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func (r Report) resetTable() record.Table {
	t := record.Table{Title: "Reset", Note: "RFC 2544 section 26.6: from the last frame before the reset to the first one after", Columns: []string{"reset", "frame size", "frame/s", "time", "remark"}}
	for _, v := range r.Reset {
		row := []string{v.Kind, strconv.Itoa(v.Size), frameRate(v.Rate), dash, orReason(v.Reason, "")}
		if v.Reason == "" {
			row[3] = seconds(v.Time)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func lowest(values []float64) float64 {
	least := values[0]
	for _, v := range values {
		least = min(least, v)
	}
	return least
}

func negated(values []float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = -v
	}
	return out
}
