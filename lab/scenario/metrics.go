// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"weir/internal/nearest"
	links "weir/lab/link"
	"weir/record"
)

// Aggregate is the subject of a figure over all flows of a phase.
const Aggregate = "aggregate"

// Domain is the subject of a figure over all nodes of an IOAM domain.
const Domain = "domain"

// MetricKind decides the subjects of a metric.
type MetricKind string

const (
	OfFlow   MetricKind = "flow"   // subject: a flow's name; goodput, retransmit_share and loss_event_rate also Aggregate
	OfRun    MetricKind = "run"    // subject: Aggregate
	OfStream MetricKind = "stream" // subject: a tester stream's name
	OfLink   MetricKind = "link"   // subject: LinkSubject of a link and a direction
	OfLimit  MetricKind = "limit"  // subject: a limit's name
	OfNode   MetricKind = "node"   // subject: the name of a node of an IOAM domain; IOAMLost: Domain
	// OfProcedure: subject: a procedure's name.
	OfProcedure MetricKind = "procedure"
	OfSeries    MetricKind = "series" // a time series of a flow: points, not samples
)

// Metric is a quantity that a run yields. Its name, unit and meaning are defined only here.
type Metric struct {
	Name    string
	Unit    record.Unit
	Of      MetricKind
	Meaning string // one line, for help, reports and the reference
	// MoreIsBetter and LessIsBetter decide the reading of a difference; both are false if it has no
	// preference.
	MoreIsBetter, LessIsBetter bool
}

// Names of the metrics. Percentiles of a delay or of a completion time are over all its single
// values in one run.
const (
	Goodput             = "goodput"
	FlowShare           = "share"
	JainIndex           = "jain_index"
	Harm                = "harm"
	SRTTMean            = "srtt_mean"
	SRTTp50             = "srtt_p50"
	SRTTp99             = "srtt_p99"
	MinRTT              = "rtt_min"
	RetransmitShare     = "retransmit_share"
	LossEventRate       = "loss_event_rate"
	MarkedShare         = "ce_share"
	Completion          = "completion_time"
	ReportedRate        = "reported_rate"
	ExchangesPerSecond  = "exchanges_per_second"
	ExchangeGoodput     = "exchange_goodput"
	ExchangeP50         = "exchange_p50"
	ExchangeP99         = "exchange_p99"
	ExchangeP999        = "exchange_p999"
	TransfersBegun      = "transfers_begun"
	TransfersCompleted  = "transfers_completed"
	TransfersUnfinished = "transfers_unfinished"
	TransferMean        = "transfer_mean"
	TransferP50         = "transfer_p50"
	TransferP99         = "transfer_p99"
	TransferP999        = "transfer_p999"
	SlowdownP50         = "slowdown_p50"
	SlowdownP99         = "slowdown_p99"
	TransferLateness    = "transfer_lateness"
	UDPLoss             = "udp_loss"
	UDPDuplicates       = "udp_duplicates"
	UDPReordered        = "udp_reordered"
	PredictedMathis     = "predicted_mathis"
	PredictedPFTK       = "predicted_pftk"
	PredictedCUBIC      = "predicted_cubic"
	PredictedRatio      = "predicted_ratio"
	ResidualMathis      = "residual_mathis"
	ResidualPFTK        = "residual_pftk"
	ResidualCUBIC       = "residual_cubic"
	CubicRegion         = "cubic_region"
	WindowLimited       = "window_limited"
	OWDMin              = "owd_min"
	OWDMean             = "owd_mean"
	OWDp50              = "owd_p50"
	OWDp99              = "owd_p99"
	OWDMax              = "owd_max"
	IPDVp99             = "ipdv_p99"
	StreamSent          = "stream_sent"
	StreamReceived      = "stream_received"
	StreamRate          = "stream_rate"
	StreamLoss          = "stream_loss"
	StreamReordered     = "stream_reordered"
	StreamDuplicates    = "stream_duplicates"
	LinkLoss            = "link_loss"
	LinkQueueDrops      = "link_queue_drops"
	LinkMaxBacklog      = "link_max_backlog"
	LinkMarked          = "link_marked"
	LimitUse            = "limit_use"
	LimitRateUse        = "limit_rate_use"
	LimitMarked         = "limit_marked"
	LimitReduced        = "limit_reduced"
	LimitRefused        = "limit_refused"
	LimitForced         = "limit_forced"
	LimitQueueP50       = "limit_queue_p50"
	LimitQueueP99       = "limit_queue_p99"
	IOAMEncapsulated    = "ioam_encapsulated"
	IOAMShare           = "ioam_share"
	IOAMLeftAlone       = "ioam_left_alone"
	IOAMRecorded        = "ioam_recorded"
	IOAMRemoved         = "ioam_removed"
	IOAMDropped         = "ioam_dropped"
	IOAMUnread          = "ioam_unread"
	IOAMTraces          = "ioam_traces"
	IOAMLost            = "ioam_lost"
	IOAMDelayMin        = "ioam_delay_min"
	IOAMDelayP50        = "ioam_delay_p50"
	IOAMDelayP99        = "ioam_delay_p99"
	IOAMHopMin          = "ioam_hop_min"
	IOAMHopP50          = "ioam_hop_p50"
	IOAMHopP99          = "ioam_hop_p99"
	IOAMQueueP99        = "ioam_queue_p99"
	IOAMEdgePackets     = "ioam_edge_packets"
	IOAMEdgeLost        = "ioam_edge_lost"
	IOAMEdgeReordered   = "ioam_edge_reordered"
	IOAMEdgeDelay       = "ioam_edge_delay"
	Throughput          = "throughput"
	ThroughputBits      = "throughput_bits"
	ThroughputSpread    = "throughput_spread"
	ThroughputHeadroom  = "throughput_headroom"
	LossAtMaximum       = "loss_at_maximum"
	DeviceLatency       = "latency"
	DeviceLatencyP99    = "latency_p99"
	BackToBack          = "back_to_back"
	Trials              = "trials"
	TrialsRejected      = "trials_rejected"
	SeriesRate          = "rate"
	SeriesCwnd          = "cwnd"
	SeriesSsthresh      = "ssthresh"
	SeriesSRTT          = "srtt"
	SeriesRTTVar        = "rttvar"
	SeriesRetransmits   = "retransmits"
	SeriesDelivery      = "delivery_rate"
	SeriesPacing        = "pacing_rate"
	SeriesCE            = "delivered_ce"
	SeriesQueue         = "link_queue"
)

// Metrics lists every metric, in the order of reports.
func Metrics() []Metric {
	const (
		more = 1
		less = 2
		none = 0
	)
	m := func(name string, unit record.Unit, of MetricKind, better int, meaning string) Metric {
		return Metric{Name: name, Unit: unit, Of: of, Meaning: meaning, MoreIsBetter: better == more, LessIsBetter: better == less}
	}
	return []Metric{
		m(Goodput, record.BitPerSecond, OfFlow, more, "payload that the receiver counted after the settle time, as a rate; of bulk flows by the arrival of their segments; aggregate: of all bulk and UDP flows"),
		m(FlowShare, record.Share, OfFlow, none, "the flow's share of the aggregate goodput"),
		m(JainIndex, record.Share, OfRun, more, "Jain's fairness index of the goodput of all streams (RFC 5166 section 2.3): 1 is equal shares, 1/n is one stream with all"),
		m(Harm, record.Share, OfFlow, less, "relative loss of goodput beside the other flows: (alone - together) / alone (Ware et al. 2019), both runs of one repetition; needs `solo: true`; 0 or less is no harm"),
		m(SRTTMean, record.Seconds, OfFlow, less, "mean of the sender's smoothed round-trip time samples"),
		m(SRTTp50, record.Seconds, OfFlow, less, "median of the sender's smoothed round-trip time samples"),
		m(SRTTp99, record.Seconds, OfFlow, less, "99th percentile of the sender's smoothed round-trip time samples"),
		m(MinRTT, record.Seconds, OfFlow, less, "minimum round-trip time of the sender"),
		m(RetransmitShare, record.Share, OfFlow, less, "retransmitted data segments / data segments sent"),
		m(LossEventRate, record.Share, OfFlow, less, "entries into recovery and timeouts per data segment sent (the p of the throughput equations)"),
		m(MarkedShare, record.Share, OfFlow, none, "segments acknowledged with an ECN congestion mark / data segments sent"),
		m(Completion, record.Seconds, OfFlow, less, "time from a flow's start to the arrival of the last byte of its last stream, or to the end of its command; none if that did not happen"),
		m(ReportedRate, record.BitPerSecond, OfFlow, more, "the last line `rate 5Mbit` (or in bit/s) that the flow's command printed; none without such a line"),
		m(ExchangesPerSecond, "1/s", OfFlow, more, "request/response exchanges completed per second of the whole flow, its settle time included"),
		m(ExchangeGoodput, record.BitPerSecond, OfFlow, more, "bytes received after the settle time in the larger direction, requests or responses, as a rate"),
		m(ExchangeP50, record.Seconds, OfFlow, less, "median time from sending a request's first byte to reading its response's last byte"),
		m(ExchangeP99, record.Seconds, OfFlow, less, "99th percentile of that time"),
		m(ExchangeP999, record.Seconds, OfFlow, less, "99.9th percentile of that time"),
		m(TransfersBegun, record.Count, OfFlow, none, "transfers begun after the settle time; also by size, like all metrics of transfers: subject `web small`, `web middle` or `web large` of a flow `web`"),
		m(TransfersCompleted, record.Count, OfFlow, none, "begun transfers that were complete at the receiver by the flow's end"),
		m(TransfersUnfinished, record.Count, OfFlow, less, "begun transfers that were incomplete at the flow's end; figures of time exclude them, and are too low if there are many"),
		m(TransferMean, record.Seconds, OfFlow, less, "mean completion time: from the sender's connect call to the receiver's read of the last byte"),
		m(TransferP50, record.Seconds, OfFlow, less, "median of that time"),
		m(TransferP99, record.Seconds, OfFlow, less, "99th percentile of that time; the longest of fewer than 100 transfers"),
		m(TransferP999, record.Seconds, OfFlow, less, "99.9th percentile of that time; the longest of fewer than 1000 transfers"),
		m(SlowdownP50, record.Share, OfFlow, less, "median of completion time / minimum time on the empty path: three one-way delays, and the bytes with headers at the slowest link's rate"),
		m(SlowdownP99, record.Share, OfFlow, less, "99th percentile of that ratio"),
		m(TransferLateness, record.Seconds, OfFlow, less, "99th percentile of the delay between a transfer's drawn start and its connect call"),
		m(UDPLoss, record.Share, OfFlow, less, "lost datagrams / datagrams sent"),
		m(UDPDuplicates, record.Share, OfFlow, less, "duplicate datagrams / datagrams sent"),
		m(UDPReordered, record.Share, OfFlow, less, "datagrams that arrived after a later one / datagrams that arrived"),
		m(PredictedMathis, record.BitPerSecond, OfFlow, none, "goodput by Mathis et al. 1997 at the run's loss-event rate and mean SRTT, C = sqrt(3/2)"),
		m(PredictedPFTK, record.BitPerSecond, OfFlow, none, "goodput by the full equation of Padhye et al. (RFC 5348 section 3.1) at the run's loss-event rate and mean SRTT"),
		m(PredictedCUBIC, record.BitPerSecond, OfFlow, none, "goodput by the CUBIC response function (RFC 9438 section 5) at the run's loss-event rate and mean SRTT"),
		m(PredictedRatio, record.Share, OfFlow, none, "goodput / predicted_mathis"),
		m(ResidualMathis, record.Share, OfFlow, none, "goodput / predicted_mathis - 1"),
		m(ResidualPFTK, record.Share, OfFlow, none, "goodput / predicted_pftk - 1"),
		m(ResidualCUBIC, record.Share, OfFlow, none, "goodput / predicted_cubic - 1"),
		m(CubicRegion, record.Share, OfFlow, none, "CUBIC's region at the run's loss-event rate and mean SRTT: 0 Reno-friendly (RFC 9438 section 4.3), 1 concave or convex (sections 4.4 and 4.5)"),
		m(WindowLimited, record.Share, OfFlow, less, "share of the sending time in which the receive window or the send buffer limited the sender, not congestion control"),
		m(OWDMin, record.Seconds, OfStream, less, "minimum one-way delay of the stream's frames (RFC 7679)"),
		m(OWDMean, record.Seconds, OfStream, less, "mean one-way delay"),
		m(OWDp50, record.Seconds, OfStream, less, "median one-way delay"),
		m(OWDp99, record.Seconds, OfStream, less, "99th percentile of the one-way delay"),
		m(OWDMax, record.Seconds, OfStream, less, "maximum one-way delay"),
		m(IPDVp99, record.Seconds, OfStream, less, "99th percentile of the absolute delay variation between consecutive frames (RFC 3393)"),
		m(StreamSent, record.Frames, OfStream, none, "stamped frames sent"),
		m(StreamReceived, record.Frames, OfStream, none, "stamped frames that arrived, duplicates included"),
		m(StreamRate, record.FramePerSecond, OfStream, more, "frames received per second between the first and the last arrival"),
		m(StreamLoss, record.Share, OfStream, less, "lost frames / frames sent (RFC 7680)"),
		m(StreamReordered, record.Share, OfStream, less, "frames with a sequence number below the next expected one / frames received (RFC 4737)"),
		m(StreamDuplicates, record.Share, OfStream, less, "duplicate frames / frames sent (RFC 5560)"),
		m(LinkLoss, record.Share, OfLink, none, "frames lost by the link's loss model / frames that left its queue"),
		m(LinkQueueDrops, record.Frames, OfLink, none, "frames dropped at the link's full queue"),
		m(LinkMaxBacklog, record.Bytes, OfLink, none, "maximum bytes in the link's queue"),
		m(LinkMarked, record.Frames, OfLink, none, "frames that the link's queue marked with congestion experienced"),
		m(LimitUse, record.Share, OfLimit, more, "goodput of all limited flows / maximum goodput under the limit: its rate times a full segment's payload over its charged bytes, 1448/1514 for TCP over IPv4 with timestamps and an MTU of 1500"),
		m(LimitRateUse, record.Share, OfLimit, none, "bytes that the limit passed after the settle time, by its own count / rate times that time"),
		m(LimitMarked, record.Count, OfLimit, none, "packets that the limit marked with congestion experienced"),
		m(LimitReduced, record.Count, OfLimit, none, "packets for which the limit reduced the sender's congestion window"),
		m(LimitRefused, record.Count, OfLimit, less, "packets that the limit rejected or dropped"),
		m(LimitForced, record.Count, OfLimit, none, "packets that the limit passed beyond the drop threshold, because their sender had nothing else in flight"),
		m(LimitQueueP50, record.Seconds, OfLimit, less, "median of the virtual queue at packet arrivals, rounded up to a power of 2"),
		m(LimitQueueP99, record.Seconds, OfLimit, less, "99th percentile of that queue"),
		m(IOAMEncapsulated, record.Count, OfNode, none, "packets to which the node added IOAM options; a GSO packet counts once"),
		m(IOAMShare, record.Share, OfNode, none, "these packets / packets that match the node's encapsulations"),
		m(IOAMLeftAlone, record.Count, OfNode, less, "matching packets without options: packet too long, header full, or above the limit of flags"),
		m(IOAMRecorded, record.Count, OfNode, none, "traces with the node's data"),
		m(IOAMRemoved, record.Count, OfNode, none, "packets from which the node removed options at their end point"),
		m(IOAMDropped, record.Count, OfNode, less, "packets that the node dropped because of their IOAM: at the border, malformed, without proof, or active ones at their end"),
		m(IOAMUnread, record.Count, OfNode, less, "records lost because the reader was too slow"),
		m(IOAMTraces, record.Count, OfNode, none, "collected packets with a trace over the node"),
		m(IOAMLost, record.Share, OfNode, less, "packets with options that were added and never removed / packets with added options; none if links cut super-packets"),
		m(IOAMDelayMin, record.Seconds, OfNode, less, "minimum transit delay of the node in traces (RFC 9197)"),
		m(IOAMDelayP50, record.Seconds, OfNode, less, "median of that time"),
		m(IOAMDelayP99, record.Seconds, OfNode, less, "99th percentile of that time"),
		m(IOAMHopMin, record.Seconds, OfNode, less, "minimum time from the node's reception of a packet to the next node's: in the node and on the link to the next"),
		m(IOAMHopP50, record.Seconds, OfNode, less, "median of that time"),
		m(IOAMHopP99, record.Seconds, OfNode, less, "99th percentile of that time"),
		m(IOAMQueueP99, record.Bytes, OfNode, less, "99th percentile of the node's queue in traces"),
		m(IOAMEdgePackets, record.Count, OfNode, none, "packets with edge-to-edge options that ended at the node"),
		m(IOAMEdgeLost, record.Share, OfNode, less, "packets missing by edge-to-edge sequence numbers / packets sent"),
		m(IOAMEdgeReordered, record.Share, OfNode, less, "packets that arrived after a later one by these numbers / packets that arrived"),
		m(IOAMEdgeDelay, record.Seconds, OfNode, less, "mean one-way delay between the edges by their times"),
		m(Throughput, record.FramePerSecond, OfProcedure, more, "highest rate without loss in a deciding trial (RFC 2544 section 26.1), as measured at the sender"),
		m(ThroughputBits, record.BitPerSecond, OfProcedure, more, "the same on the wire, with preamble, FCS and gap; on virtual links no payload is copied, so it is not a device's bit rate"),
		m(ThroughputSpread, record.Share, OfProcedure, less, "highest throughput of all valid repetitions over the lowest, minus 1; one figure per cell"),
		m(ThroughputHeadroom, record.Share, OfProcedure, none, "maximum rate offered in a valid trial of the search / throughput; near 1 the tester was the limit, not the device"),
		m(LossAtMaximum, record.Share, OfProcedure, less, "frame loss rate at the highest valid rate (RFC 2544 section 26.3)"),
		m(DeviceLatency, record.Seconds, OfProcedure, less, "mean latency at the throughput (RFC 2544 section 26.2), over all frames"),
		m(DeviceLatencyP99, record.Seconds, OfProcedure, less, "99th percentile of that latency"),
		m(BackToBack, record.Frames, OfProcedure, more, "mean of the longest bursts that lost no frame (RFC 9004)"),
		m(Trials, record.Count, OfProcedure, none, "trials of all tests"),
		m(TrialsRejected, record.Count, OfProcedure, none, "trials excluded because the testbed was disturbed"),
		m(SeriesRate, record.BitPerSecond, OfSeries, none, "bytes received in each interval, as a rate"),
		m(SeriesCwnd, record.Count, OfSeries, none, "congestion window in segments"),
		m(SeriesSsthresh, record.Count, OfSeries, none, "slow start threshold in segments"),
		m(SeriesSRTT, record.Seconds, OfSeries, none, "smoothed round-trip time"),
		m(SeriesRTTVar, record.Seconds, OfSeries, none, "round-trip time variation"),
		m(SeriesRetransmits, record.Count, OfSeries, none, "segments retransmitted so far"),
		m(SeriesDelivery, record.BitPerSecond, OfSeries, none, "TCP's estimate of its delivery rate"),
		m(SeriesPacing, record.BitPerSecond, OfSeries, none, "TCP's pacing rate"),
		m(SeriesCE, record.Count, OfSeries, none, "segments acknowledged with a congestion mark so far"),
		m(SeriesQueue, record.Bytes, OfSeries, none, "maximum bytes in a link's queue in each 100 ms; subject: a link's direction. Under netem the maximum of samples every 20 ms, or up to 100 ms in labs of many links"),
	}
}

// FindMetric returns the metric of that name, or the nearest name.
func FindMetric(name string) (m Metric, known bool, near string) {
	all := Metrics()
	names := make([]string, len(all))
	for i, m := range all {
		if m.Name == name {
			return m, true, ""
		}
		names[i] = m.Name
	}
	return Metric{}, false, nearest.Of(name, names)
}

// LinkSubject names one direction of a link as a subject of samples: "path forward", "path
// reverse".
func LinkSubject(link string, reverse bool) string {
	return links.DirectionName(link, reverse)
}
