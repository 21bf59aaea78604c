// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"math"

	"weir/internal/units"
	"weir/lab/predict"
	"weir/lab/scenario"
	"weir/lab/traffic"
	"weir/record"
)

// models lists the equations, each with the metrics of its prediction and of the residual.
var models = []struct {
	name, title         string
	predicted, residual string
	of                  func(predict.Path) predict.Prediction
}{
	{predict.ModelMathis, "Mathis", scenario.PredictedMathis, scenario.ResidualMathis,
		func(p predict.Path) predict.Prediction { return predict.Mathis(p, predict.EveryACK) }},
	{predict.ModelPFTK, "PFTK", scenario.PredictedPFTK, scenario.ResidualPFTK,
		func(p predict.Path) predict.Prediction { return predict.PFTK(p, predict.PFTKOptions{}) }},
	{predict.ModelCUBIC, "RFC 9438", scenario.PredictedCUBIC, scenario.ResidualCUBIC, predict.CUBIC},
}

// measuredFlow returns the inputs of the equations: the loss-event rate and round-trip time of this
// run.
func (f flow) measuredFlow(cell *scenario.Cell) predict.Flow {
	congestion := f.result.Flow.Congestion
	if congestion == "" {
		congestion = f.result.Congestion
	}
	return predict.Flow{
		Path:       predict.Path{MSS: segmentSize(cell, f.result.Flow), RTT: f.meanRTT(), LossEvent: predict.LossEventRate(f.events, f.segments)},
		Congestion: congestion, Segments: f.segments, Events: f.events, Marked: f.marked,
	}
}

// predictions returns the throughput equations' predictions for the flow, all its streams together,
// and the residuals. A model that does not describe the flow has no sample. The link's rate does
// not exclude a sample: that would bias the mean of the others.
func (f flow) predictions(a attempt, name string) []record.Sample {
	var samples []record.Sample
	measured := f.measuredFlow(a.result.Cell)
	for _, model := range models {
		if measured.Absent(model.name) != "" {
			continue
		}
		prediction := model.of(measured.Path)
		rate := float64(len(f.streams)) * prediction.Rate
		if rate == 0 || math.IsNaN(rate) || math.IsInf(rate, 0) {
			continue
		}
		samples = append(samples, a.sample(name, model.predicted, rate), a.sample(name, model.residual, f.goodput/rate-1))
		switch model.name {
		case predict.ModelMathis:
			samples = append(samples, a.sample(name, scenario.PredictedRatio, f.goodput/rate))
		case predict.ModelCUBIC:
			region := 0.0
			if prediction.Regime == predict.CubicGrowth {
				region = 1
			}
			samples = append(samples, a.sample(name, scenario.CubicRegion, region))
		}
	}
	if f.busy > 0 {
		samples = append(samples, a.sample(name, scenario.WindowLimited, float64(f.windowLimited)/float64(f.busy)))
	}
	return samples
}

// segmentSize is the payload of a flow's full segment: the smallest MTU of the cell's links less
// the headers.
func segmentSize(cell *scenario.Cell, f traffic.Flow) int {
	mtu := 1500
	for i, l := range cell.Links {
		own := l.MTU
		if own == 0 {
			own = 1500
		}
		if i == 0 || own < mtu {
			mtu = own
		}
	}
	return mtu - f.Headers()
}

// allowance is the maximum goodput of a flow without loss: the rate of the slowest link on its
// path, or its own application's limit. 0 means no limit.
func allowance(cell *scenario.Cell, f traffic.Flow) float64 {
	var slowest units.BitRate
	for _, d := range cell.Crossed(f.From, f.To) {
		if d.Rate > 0 && (slowest == 0 || d.Rate < slowest) {
			slowest = d.Rate
		}
	}
	mss := segmentSize(cell, f)
	allowed := predict.LinkGoodput(float64(slowest), mss, mss+f.Headers())
	if own := float64(f.Rate); own > 0 && (allowed == 0 || own < allowed) {
		allowed = own
	}
	return allowed
}
