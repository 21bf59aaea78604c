// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"weir/record"
	"weir/record/hist"
	"weir/tester/session"
)

// maxCurves keeps a figure readable; the bundle holds the distributions of every stream.
const maxCurves = 8

func figures(a session.Account) []record.Figure {
	var all []record.Figure
	add := func(f record.Figure) {
		if len(f.Curves) > 0 {
			all = append(all, f)
		}
	}
	delay := func(s session.Stream) *hist.Histogram {
		if a.Clock != session.OneWay {
			return nil
		}
		return s.Received.Delay
	}
	variation := func(s session.Stream) *hist.Histogram { return s.Received.Variation }
	add(distributionFigure(a, "owd-cdf", "One-way delay", delay, (*hist.Histogram).Curve))
	add(distributionFigure(a, "owd-histogram", "One-way delay: histogram", delay, density))
	add(distributionFigure(a, "ipdv-cdf", "Delay variation between consecutive frames", variation, (*hist.Histogram).Curve))
	add(seriesFigure(a, "rate", "Frames received", record.FramePerSecond, func(r session.Reading) float64 { return r.Received }))
	add(seriesFigure(a, "lost", "Frames lost so far", record.Frames, func(r session.Reading) float64 { return float64(r.Lost) }))
	if a.Clock == session.OneWay {
		add(seriesFigure(a, "delay", "Mean one-way delay of each second", record.Seconds, func(r session.Reading) float64 { return r.Delay / 1e9 }))
	}
	return all
}

// density returns the share of frames per bucket, at the bucket's middle.
func density(h *hist.Histogram) (x, y []float64) {
	for index, n := range h.All() {
		low, high := hist.Bounds(index)
		x, y = append(x, (float64(low)+float64(high))/2/1e9), append(y, float64(n)/float64(h.Count()))
	}
	return x, y
}

func distributionFigure(a session.Account, name, title string, of func(session.Stream) *hist.Histogram, shape func(*hist.Histogram) (x, y []float64)) record.Figure {
	f := record.Figure{Name: name, Title: title, Kind: record.Steps, XLabel: "delay", YLabel: "share of frames", XUnit: record.Seconds, YUnit: record.Share, LogX: true}
	for _, s := range a.Streams {
		if s.Received == nil || len(f.Curves) == maxCurves {
			continue
		}
		if h := of(s); h.Count() > 0 {
			curve := record.Curve{Name: s.Name}
			curve.X, curve.Y = shape(h)
			f.Curves = append(f.Curves, curve)
		}
	}
	return f
}

func seriesFigure(a session.Account, name, title string, unit record.Unit, value func(session.Reading) float64) record.Figure {
	f := record.Figure{Name: name, Title: title, Kind: record.TimeLine, XLabel: "time", YLabel: title, XUnit: record.Seconds, YUnit: unit}
	for _, s := range a.Streams {
		if s.Received == nil || len(f.Curves) == maxCurves {
			continue
		}
		curve := record.Curve{Name: s.Name}
		for _, r := range a.Series {
			if r.Stream == s.ID {
				curve.X, curve.Y = append(curve.X, r.At.Seconds()), append(curve.Y, value(r))
			}
		}
		if len(curve.X) > 0 {
			f.Curves = append(f.Curves, curve)
		}
	}
	return f
}
