// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"fmt"
	"strconv"
	"strings"

	"weir/internal/nearest"
	"weir/internal/units"
	"weir/internal/yamlfile"
	"weir/record"
)

// Metric is a figure of a stream that an expectation can bound. Names and meanings are those of the
// lab's streams.
type Metric struct {
	Name    string
	Unit    record.Unit
	Meaning string
}

// Metrics lists the metrics of a stream, in the order of reports.
func Metrics() []Metric {
	return []Metric{
		{"stream_sent", record.Frames, "frames sent"},
		{"stream_received", record.Frames, "stamped frames that arrived, duplicates included"},
		{"stream_lost", record.Frames, "frames that never arrived, those after the last arrival included (RFC 7680)"},
		{"stream_loss", record.Share, "the same as a share of the frames sent"},
		{"stream_duplicates", record.Share, "duplicate frames as a share of the frames sent (RFC 5560)"},
		{"stream_reordered", record.Share, "frames with a sequence number below the next expected one, as a share of the frames received (RFC 4737)"},
		{"stream_reorder_extent", record.Frames, "largest reordering extent (RFC 4737 section 4.2.1)"},
		{"stream_payload_errors", record.Frames, "frames with a damaged payload"},
		{"stream_header_errors", record.Frames, "frames with a wrong IPv4 header checksum"},
		{"stream_out_of_window", record.Frames, "frames that arrived more than 8128 numbers late: lost, or duplicates of earlier frames"},
		{"stream_misnumbered", record.Frames, "frames with a sequence number that the surrounding frames refute"},
		{"stream_restarts", record.Frames, "times that the sender began again, or that another sender used its identifier"},
		{"stream_send_rate", record.FramePerSecond, "frames sent per second, from the first to the last"},
		{"stream_rate", record.FramePerSecond, "frames received per second, from the first to the last arrival"},
		{"stream_wire_rate", record.BitPerSecond, "received octets on the wire, preamble and gap included, as a rate"},
		{"stream_payload_rate", record.BitPerSecond, "received octets of UDP payload as a rate"},
		{"stream_late", record.Share, "frames that left late, as a share of the frames sent"},
		{"stream_skipped", record.Frames, "frames left out because their time had passed"},
		{"owd_min", record.Seconds, "smallest one-way delay (RFC 7679)"},
		{"owd_mean", record.Seconds, "mean one-way delay"},
		{"owd_p50", record.Seconds, "median one-way delay"},
		{"owd_p99", record.Seconds, "99th percentile of the one-way delay"},
		{"owd_p999", record.Seconds, "99.9th percentile of the one-way delay"},
		{"owd_max", record.Seconds, "largest one-way delay"},
		{"ipdv_mean", record.Seconds, "mean absolute delay variation between consecutive frames (RFC 3393)"},
		{"ipdv_p99", record.Seconds, "99th percentile of the absolute delay variation"},
	}
}

// FindMetric returns the metric of that name.
func FindMetric(name string) (Metric, bool) {
	for _, m := range Metrics() {
		if m.Name == name {
			return m, true
		}
	}
	return Metric{}, false
}

func (b *builder) expectation(f *expectFile) {
	m, known := FindMetric(f.Metric)
	if !known {
		var names []string
		for _, m := range Metrics() {
			names = append(names, m.Name)
		}
		b.problems.Add(f.At("metric"), "", "metric %q is not one of %s%s", f.Metric, strings.Join(names, ", "), nearest.Hint(f.Metric, names))
		return
	}
	if f.Min == nil && f.Max == nil {
		b.problems.Add(f.Self, "add min or max", "the expectation has neither min nor max")
	}
	e := Expectation{Name: f.Name, Stream: f.Stream, Metric: f.Metric, Min: b.bound(f.Min, m), Max: b.bound(f.Max, m)}
	if e.Name == "" {
		e.Name = f.Metric
	}
	if f.Stream != "" && !b.streamExists(f.Stream) {
		b.problems.Add(f.At("stream"), "", "no stream is called %q", f.Stream)
	}
	b.spec.Expect = append(b.spec.Expect, e)
}

func (b *builder) streamExists(name string) bool {
	for _, d := range b.spec.Directions {
		for _, s := range d.Schedule.Streams {
			if s.Name == name {
				return true
			}
		}
	}
	return false
}

// bound reads a value in the metric's unit; nil and mistakes give nil.
func (b *builder) bound(text *yamlfile.Text, m Metric) *float64 {
	if text == nil {
		return nil
	}
	v, err := quantity(text.Value, m.Unit)
	if err != nil {
		b.problems.Add(text.Place, "", "%s", err)
		return nil
	}
	return &v
}

func quantity(text string, unit record.Unit) (float64, error) {
	switch unit {
	case record.Seconds:
		d, err := units.ParseDuration(text)
		return d.Seconds(), err
	case record.BitPerSecond:
		r, err := units.ParseBitRate(text)
		return float64(r), err
	case record.Share:
		p, err := units.ParseProbability(text)
		return float64(p), err
	case record.FramePerSecond:
		return ParseFrameRate(text)
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || v < 0 {
		return 0, fmt.Errorf("%q is not a number of frames", text)
	}
	return v, nil
}
