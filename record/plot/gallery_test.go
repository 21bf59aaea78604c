// SPDX-License-Identifier: Apache-2.0

package plot_test

import (
	"fmt"
	"math"
	"math/rand/v2"

	"weir/record"
)

const hostile = `<script>alert("x")</script>&'`

// gallery has one difficult figure of every kind.
func gallery() []record.Figure {
	return []record.Figure{lossStudy(false), lossStudy(true), timeline(), cdf(), bars()}
}

func lossStudy(logarithmic bool) record.Figure {
	f := record.Figure{Name: "goodput-by-loss", Title: "Goodput under random loss", Kind: record.Lines,
		Subtitle: "1 Gbit/s, 0.4 ms, 5 repetitions, mean with 95 % interval", XLabel: "loss", YLabel: "goodput",
		XUnit: record.Share, YUnit: record.BitPerSecond, LogY: logarithmic}
	loss := []float64{0, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1}
	if logarithmic {
		f.Name = "goodput-by-loss-log"
	}
	add := func(name string, reference bool, mbit ...float64) {
		c := record.Curve{Name: name, Reference: reference, X: loss[:len(mbit)]}
		for _, v := range mbit {
			c.Y = append(c.Y, v*1e6)
			if !reference {
				c.Low, c.High = append(c.Low, v*0.8e6-2e6), append(c.High, v*1.15e6+3e6)
			}
		}
		f.Curves = append(f.Curves, c)
	}
	add("cubic", false, 905, 240, 100, 50, 20, 9, 2)
	add("bbr", false, 902, 886, 870, 868, 855, 820, 762)
	add("cubic, asymmetric return", false, 911, 250, 130, 70, 40, 12, 5)
	add("cubic (published)", true, 941, 276)
	add("Mathis prediction", true, math.NaN(), 260, 184, 150, 116, 98, 82)
	add(hostile, true, math.NaN(), 500, 400, 300, 200, 150, 100)
	return f
}

func timeline() record.Figure {
	f := record.Figure{Name: "cwnd", Title: "Congestion window", Subtitle: "first repetition", Kind: record.TimeLine, XLabel: "time",
		YLabel: "congestion window", XUnit: record.Seconds, YUnit: record.Count}
	r := rand.New(rand.NewPCG(1, 2))
	for _, name := range []string{"cubic", "bbr"} {
		c := record.Curve{Name: name}
		v := 10.0
		for i := range 20000 {
			v = math.Max(v+r.Float64()*0.4, 2)
			if r.IntN(400) == 0 {
				v *= 0.7
			}
			if name == "bbr" {
				v = 80 + 20*math.Sin(float64(i)/800)
			}
			y := v
			if i > 8000 && i < 8600 {
				y = math.NaN()
			}
			c.X, c.Y = append(c.X, float64(i)/1000), append(c.Y, y)
		}
		f.Curves = append(f.Curves, c)
	}
	return f
}

func cdf() record.Figure {
	f := record.Figure{Name: "rtt-cdf", Title: "Round-trip time", Kind: record.Steps, XLabel: "RTT", YLabel: "share of samples at or below",
		XUnit: record.Seconds, YUnit: record.Share, LogX: true}
	for k, name := range []string{"idle", "fq_codel", "pfifo"} {
		c := record.Curve{Name: name}
		for i := range 60 {
			share := float64(i+1) / 60
			c.X = append(c.X, 0.0004*math.Pow(10, float64(k))*(1+share*share*3))
			c.Y = append(c.Y, share)
		}
		f.Curves = append(f.Curves, c)
	}
	return f
}

func bars() record.Figure {
	f := record.Figure{Name: "share-by-buffer", Title: "BBR against CUBIC over buffer depth", Kind: record.BarChart,
		Subtitle: "100 Mbit/s, 20 ms", XLabel: "buffer", YLabel: "goodput", YUnit: record.BitPerSecond}
	for i := range 5 {
		f.XNames = append(f.XNames, fmt.Sprintf("%g BDP", 0.5*math.Pow(2, float64(i))))
	}
	bbr := []float64{91e6, 90e6, 65e6, 15e6, 6e6}
	a, b := record.Curve{Name: "bbr"}, record.Curve{Name: "cubic"}
	for i, v := range bbr {
		a.X, a.Y = append(a.X, float64(i)), append(a.Y, v)
		a.Low, a.High = append(a.Low, v*0.9), append(a.High, v*1.1)
		b.X, b.Y = append(b.X, float64(i)), append(b.Y, 96e6-v)
		b.Low, b.High = append(b.Low, (96e6-v)*0.9), append(b.High, (96e6-v)*1.1)
	}
	f.Curves = []record.Curve{a, b, {Name: "fair share", X: []float64{-0.5, 4.5}, Y: []float64{48e6, 48e6}, Reference: true}}
	return f
}
