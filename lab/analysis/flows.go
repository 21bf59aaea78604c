// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"time"

	"weir/lab/run"
	"weir/lab/scenario"
	"weir/lab/traffic"
	"weir/record"
	"weir/record/hist"
	"weir/record/stats"
)

// flow holds the figures of one flow of a phase without its settle time.
type flow struct {
	result   *traffic.Result
	settle   time.Duration // excluded from the start of the flow
	streams  []float64     // goodput of each stream, bit/s
	goodput  float64       // bit/s
	rtts     *hist.Histogram
	minRTT   time.Duration
	segments uint64 // TCP data segments sent, retransmissions included
	retrans  uint64
	events   uint64
	marked   uint64
	// busy is the time with data to send. windowLimited is the part of it in which the receive
	// window or the send buffer limited the sender.
	busy, windowLimited time.Duration
}

func flowOf(result *traffic.Result, settle time.Duration) flow {
	settle = max(0, settle-result.Flow.Start)
	f := flow{result: result, settle: settle, rtts: &hist.Histogram{}}
	for i := range result.Streams {
		stream := &result.Streams[i]
		rate := goodput(stream, result.Flow, settle)
		f.streams = append(f.streams, rate)
		f.goodput += rate
		f.segments += stream.SentSegments
		f.retrans += stream.Retransmits
		f.events += stream.LossEvents
		f.marked += stream.DeliveredCE
		f.busy, f.windowLimited = f.busy+stream.Busy, f.windowLimited+stream.WindowLimited
		for _, reading := range stream.Readings {
			if reading.At < settle || reading.SRTT <= 0 {
				continue
			}
			f.rtts.Record(uint64(reading.SRTT))
			if reading.MinRTT > 0 && (f.minRTT == 0 || reading.MinRTT < f.minRTT) {
				f.minRTT = reading.MinRTT
			}
		}
	}
	if f.rtts.Count() == 0 && result.RTT != nil {
		f.rtts.Merge(result.RTT)
	}
	return f
}

// goodput counts the receiver's bytes in whole rate intervals after the settle time. A stream that
// ended by size, or one without intervals, counts as a whole.
func goodput(stream *traffic.Stream, f traffic.Flow, settle time.Duration) float64 {
	first := int((settle + traffic.RateInterval - 1) / traffic.RateInterval)
	last := min(len(stream.Received), int(f.Duration/traffic.RateInterval))
	if stream.Finished > 0 || first == 0 || last <= first {
		return float64(stream.Goodput)
	}
	var octets uint64
	for _, n := range stream.Received[first:last] {
		octets += n
	}
	return float64(octets) * 8 / (time.Duration(last-first) * traffic.RateInterval).Seconds()
}

// flowSamples returns the figures of a phase's flows and of their aggregate.
func flowSamples(a attempt, phase run.PhaseResult) []record.Sample {
	var samples []record.Sample
	var all flow
	flows := make([]flow, len(phase.Flows))
	for i := range phase.Flows {
		f := flowOf(&phase.Flows[i], phase.Phase.Settle)
		flows[i] = f
		if !scenario.Contends(f.result.Flow.Kind) {
			continue
		}
		all.goodput += f.goodput
		all.streams = append(all.streams, f.streams...)
		all.segments += f.segments
		all.retrans += f.retrans
		all.events += f.events
	}
	for _, f := range flows {
		samples = append(samples, f.samples(a)...)
		if scenario.Contends(f.result.Flow.Kind) && len(all.streams) > len(f.streams) {
			samples = append(samples, f.sharing(a, all)...)
		}
	}
	if len(all.streams) == 0 {
		return samples
	}
	samples = append(samples, a.sample(scenario.Aggregate, scenario.Goodput, all.goodput))
	if len(all.streams) > 1 {
		samples = append(samples, a.sample(scenario.Aggregate, scenario.JainIndex, stats.Jain(all.streams)))
	}
	if all.segments > 0 {
		samples = append(samples, a.sample(scenario.Aggregate, scenario.RetransmitShare, share(all.retrans, all.segments)),
			a.sample(scenario.Aggregate, scenario.LossEventRate, share(all.events, all.segments)))
	}
	return samples
}

// sharing returns the figures of a flow relative to the others.
func (f flow) sharing(a attempt, all flow) []record.Sample {
	if all.goodput == 0 {
		return nil
	}
	return []record.Sample{a.sample(f.result.Flow.Name, scenario.FlowShare, f.goodput/all.goodput)}
}

// samples returns the figures of the flow by itself.
func (f flow) samples(a attempt) []record.Sample {
	name := f.result.Flow.Name
	switch f.result.Flow.Kind {
	case traffic.Datagram:
		return f.datagramSamples(a, name)
	case traffic.Request:
		return append(f.requestSamples(a, name), f.tcpSamples(a, name)...)
	case traffic.Transfers:
		return append(f.transferSamples(a, name), f.tcpSamples(a, name)...)
	}
	samples := []record.Sample{a.sample(name, scenario.Goodput, f.goodput)}
	if took := f.completion(); took > 0 {
		samples = append(samples, a.sample(name, scenario.Completion, took.Seconds()))
	}
	if f.result.Flow.Kind == traffic.Program {
		if f.result.Reported > 0 {
			samples = append(samples, a.sample(name, scenario.ReportedRate, float64(f.result.Reported)))
		}
		return samples
	}
	samples = append(samples, f.tcpSamples(a, name)...)
	if underLimit(a.result.Cell, f.result.Flow) {
		return samples // the equations model losses only, not marks
	}
	return append(samples, f.predictions(a, name)...)
}

// completion returns the time at which the last stream ended, or 0 if a stream did not end.
func (f flow) completion() (last time.Duration) {
	for _, s := range f.result.Streams {
		if s.Finished == 0 {
			return 0
		}
		last = max(last, s.Finished)
	}
	return last
}

func (f flow) datagramSamples(a attempt, name string) []record.Sample {
	var sent, arrived, duplicates, late uint64
	for _, s := range f.result.Streams {
		sent, arrived, duplicates, late = sent+s.Sent, arrived+s.Arrived, duplicates+s.Duplicates, late+s.OutOfOrder
	}
	return []record.Sample{
		a.sample(name, scenario.Goodput, f.goodput),
		a.sample(name, scenario.UDPLoss, share(sent-min(sent, arrived), sent)),
		a.sample(name, scenario.UDPDuplicates, share(duplicates, sent)),
		a.sample(name, scenario.UDPReordered, share(late, arrived)),
	}
}

func (f flow) requestSamples(a attempt, name string) []record.Sample {
	times := f.result.Exchanges
	if times == nil || f.result.Flow.Duration <= 0 {
		return nil
	}
	samples := []record.Sample{
		a.sample(name, scenario.ExchangesPerSecond, float64(times.Count())/f.result.Flow.Duration.Seconds()),
		a.sample(name, scenario.ExchangeGoodput, f.goodput),
	}
	if times.Count() == 0 {
		return samples
	}
	return append(samples,
		a.sample(name, scenario.ExchangeP50, seconds(times.Quantile(0.5))),
		a.sample(name, scenario.ExchangeP99, seconds(times.Quantile(0.99))),
		a.sample(name, scenario.ExchangeP999, seconds(times.Quantile(0.999))))
}

func (f flow) tcpSamples(a attempt, name string) []record.Sample {
	var samples []record.Sample
	if f.rtts.Count() > 0 {
		samples = append(samples,
			a.sample(name, scenario.SRTTMean, f.meanRTT().Seconds()),
			a.sample(name, scenario.SRTTp50, seconds(f.rtts.Quantile(0.5))),
			a.sample(name, scenario.SRTTp99, seconds(f.rtts.Quantile(0.99))))
	}
	if f.minRTT > 0 {
		samples = append(samples, a.sample(name, scenario.MinRTT, f.minRTT.Seconds()))
	}
	if f.segments == 0 {
		return samples
	}
	return append(samples,
		a.sample(name, scenario.RetransmitShare, share(f.retrans, f.segments)),
		a.sample(name, scenario.LossEventRate, share(f.events, f.segments)),
		a.sample(name, scenario.MarkedShare, share(f.marked, f.segments)))
}

// meanRTT returns the mean of the SRTT samples.
func (f flow) meanRTT() time.Duration {
	if f.rtts.Count() == 0 {
		return 0
	}
	return time.Duration(float64(f.rtts.Sum()) / float64(f.rtts.Count()))
}

func share(part, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

func seconds(ns uint64) float64 { return float64(ns) / 1e9 }
