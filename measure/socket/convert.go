// SPDX-License-Identifier: Apache-2.0

package socket

import (
	"time"

	"weir/kernel/tcpinfo"
	"weir/measure/record"
)

// convert returns the fields of Measurement Lab's schema; elapsed is in µs.
func convert(i *tcpinfo.Info, elapsed int64) *record.TCPInfo {
	return &record.TCPInfo{
		State: i.State, CAState: i.Ca_state, Retransmits: i.Retransmits, Probes: i.Probes, Backoff: i.Backoff, Options: i.Options,
		WScale: i.WScale, AppLimited: i.AppLimited,
		RTO: i.Rto, ATO: i.Ato, SndMSS: i.Snd_mss, RcvMSS: i.Rcv_mss,
		Unacked: i.Unacked, Sacked: i.Sacked, Lost: i.Lost, Retrans: i.Retrans, Fackets: i.Fackets,
		LastDataSent: i.Last_data_sent, LastAckSent: i.Last_ack_sent, LastDataRecv: i.Last_data_recv, LastAckRecv: i.Last_ack_recv,
		PMTU: i.Pmtu, RcvSsThresh: i.Rcv_ssthresh, RTT: i.Rtt, RTTVar: i.Rttvar, SndSsThresh: i.Snd_ssthresh, SndCwnd: i.Snd_cwnd,
		AdvMSS: i.Advmss, Reordering: i.Reordering, RcvRTT: i.Rcv_rtt, RcvSpace: i.Rcv_space, TotalRetrans: i.Total_retrans,
		PacingRate: int64(i.Pacing_rate), MaxPacingRate: int64(i.Max_pacing_rate),
		BytesAcked: int64(i.Bytes_acked), BytesReceived: int64(i.Bytes_received),
		SegsOut: i.Segs_out, SegsIn: i.Segs_in, NotsentBytes: i.Notsent_bytes, MinRTT: uint32(i.MinRTT() / time.Microsecond),
		DataSegsIn: i.Data_segs_in, DataSegsOut: i.Data_segs_out, DeliveryRate: int64(i.Delivery_rate),
		BusyTime: int64(i.Busy_time), RWndLimited: int64(i.Rwnd_limited), SndBufLimited: int64(i.Sndbuf_limited),
		Delivered: i.Delivered, DeliveredCE: i.Delivered_ce, BytesSent: int64(i.Bytes_sent), BytesRetrans: int64(i.Bytes_retrans),
		DSackDups: i.Dsack_dups, ReordSeen: i.Reord_seen, RcvOooPack: i.Rcv_ooopack, SndWnd: i.Snd_wnd,
		ElapsedTime: elapsed,
	}
}
