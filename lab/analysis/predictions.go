package analysis

import (
	"math"
	"strings"

	"weir/lab/predict"
	"weir/lab/scenario"
	"weir/record"
)

// predictions are what the throughput equations say at the loss event rate and round-trip time of this very run. They
// describe senders that halve their window on loss, so BBR has none, and neither has a flow without loss.
func (f flow) predictions(a attempt, name string) []record.Sample {
	congestion := f.result.Flow.Congestion
	if congestion == "" || strings.HasPrefix(congestion, "bbr") || f.events == 0 {
		return nil
	}
	path := predict.Path{
		MSS: segmentSize(a.result.Cell), RTT: f.meanRTT(), LossEvent: predict.LossEventRate(f.events, f.segments),
	}
	streams := float64(len(f.streams))
	mathis := streams * predict.Mathis(path, math.Sqrt(1.5)).Rate
	pftk := streams * predict.PFTK(path, predict.PFTKOptions{}).Rate
	cubic := streams * predict.CUBIC(path).Rate
	if math.IsNaN(mathis) || math.IsInf(mathis, 0) || mathis == 0 {
		return nil
	}
	return []record.Sample{
		a.sample(name, scenario.PredictedMathis, mathis),
		a.sample(name, scenario.PredictedPFTK, pftk),
		a.sample(name, scenario.PredictedCUBIC, cubic),
		a.sample(name, scenario.PredictedRatio, f.goodput/mathis),
	}
}

// segmentSize is the payload of a full segment: the smallest MTU of the cell's links less the headers of IPv4 and of TCP
// with timestamps.
func segmentSize(cell *scenario.Cell) int {
	const headers = 20 + 32
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
	return mtu - headers
}
