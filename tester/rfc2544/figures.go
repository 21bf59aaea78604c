// SPDX-License-Identifier: Apache-2.0

package rfc2544

import (
	"fmt"
	"slices"

	"weir/record"
	"weir/record/stats"
)

// figures returns the graphs of section 26.
func (r Report) figures() []record.Figure {
	var figures []record.Figure
	if f := r.throughputFigure(); len(f.Curves) > 0 {
		figures = append(figures, f)
	}
	if f := r.lossFigure(); len(f.Curves) > 0 {
		figures = append(figures, f)
	}
	if f := r.latencyFigure(); len(f.Curves) > 0 {
		figures = append(figures, f)
	}
	return append(figures, r.latencyCDF()...)
}

// throughputFigure has frame size as x, frame rate as y, a line for the theoretical maximum and one
// for the results.
func (r Report) throughputFigure() record.Figure {
	f := record.Figure{
		Name: "throughput", Title: "Throughput", Subtitle: r.Config.Stream + "; " + r.Config.Medium, Kind: record.Lines,
		XLabel: "frame size", YLabel: "frame rate", XUnit: record.Bytes, YUnit: record.FramePerSecond,
	}
	theory, result := record.Curve{Name: "theoretical maximum", Reference: true}, record.Curve{Name: "throughput"}
	for _, t := range r.Throughput {
		if t.Theoretical > 0 {
			theory.X, theory.Y = append(theory.X, float64(t.Size)), append(theory.Y, t.Theoretical)
		}
		if t.Measured() {
			result.X, result.Y = append(result.X, float64(t.Size)), append(result.Y, t.Rate)
		}
	}
	for _, c := range []record.Curve{theory, result} {
		if len(c.X) > 0 {
			f.Curves = append(f.Curves, c)
		}
	}
	return f
}

// lossFigure has both axes from 0 to 100 %.
func (r Report) lossFigure() record.Figure {
	f := record.Figure{
		Name: "frame-loss", Title: "Frame loss rate", Kind: record.Lines, XLabel: "input rate, share of the maximum",
		YLabel: "loss", XUnit: record.Share, YUnit: record.Share,
	}
	for _, v := range r.FrameLoss {
		curve := record.Curve{Name: fmt.Sprintf("%d octets", v.Size)}
		for _, p := range slices.Backward(v.Points) {
			if p.Reason == "" {
				curve.X, curve.Y = append(curve.X, p.Percent/100), append(curve.Y, p.Loss)
			}
		}
		if len(curve.X) > 0 {
			f.Curves = append(f.Curves, curve)
		}
	}
	return f
}

func (r Report) latencyFigure() record.Figure {
	f := record.Figure{Name: "latency", Title: "Latency at the throughput rate", Kind: record.Lines, XLabel: "frame size", YLabel: "latency", XUnit: record.Bytes, YUnit: record.Seconds}
	curve := record.Curve{Name: "mean"}
	for _, l := range r.Latency {
		if l.Reason != "" {
			continue
		}
		e := stats.Of(l.Means())
		low, high, _ := e.Interval()
		curve.X, curve.Y = append(curve.X, float64(l.Size)), append(curve.Y, e.Mean)
		curve.Low, curve.High = append(curve.Low, low), append(curve.High, high)
	}
	if len(curve.X) > 0 {
		f.Curves = []record.Curve{curve}
	}
	return f
}

func (r Report) latencyCDF() []record.Figure {
	f := record.Figure{Name: "latency-cdf", Title: "Latency of single frames", Kind: record.Steps, XLabel: "latency", YLabel: "share of frames", XUnit: record.Seconds, YUnit: record.Share, LogX: true}
	for _, l := range r.Latency {
		if l.Reason != "" {
			continue
		}
		curve := record.Curve{Name: fmt.Sprintf("%d octets", l.Size)}
		curve.X, curve.Y = l.Delays.Curve()
		f.Curves = append(f.Curves, curve)
	}
	if len(f.Curves) == 0 {
		return nil
	}
	return []record.Figure{f}
}
