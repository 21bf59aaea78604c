// SPDX-License-Identifier: Apache-2.0

package native

import (
	"time"

	"weir/internal/units"
	"weir/kernel/tcpinfo"
	"weir/lab/traffic"
	"weir/record/hist"
)

// A connection's state is read each samplePeriod, and kept in its time series each readingPeriod.
const (
	samplePeriod  = 10 * time.Millisecond
	readingPeriod = 50 * time.Millisecond
)

// tally adds up the samples of one connection. One goroutine owns it.
type tally struct {
	latest    tcpinfo.Info
	repairing bool
	// recoveries counts fast recoveries visible in samples: an entry into the state, or segments
	// retransmitted between two samples outside it.
	recoveries uint64
	srtt       time.Duration // sum of the readings'
	count      uint64
	readings   []traffic.Reading
}

// observe adds one sample.
func (t *tally) observe(info tcpinfo.Info) {
	grew := info.Total_retrans > t.latest.Total_retrans
	now := info.Ca_state == tcpinfo.Recovery
	before := t.latest.Lossy()
	switch {
	case now && !t.repairing:
		t.recoveries++
	case grew && !before && !info.Lossy() && info.Total_rto_recoveries == t.latest.Total_rto_recoveries:
		t.recoveries++
	}
	t.repairing = now
	t.latest = info
}

// keep makes the latest sample a reading, unless no round-trip time is known yet.
func (t *tally) keep(at time.Duration, rtt *hist.Histogram) {
	info := &t.latest
	if info.Rtt == 0 {
		return
	}
	rtt.Record(uint64(info.SRTT()))
	t.srtt += info.SRTT()
	t.count++
	t.readings = append(t.readings, traffic.Reading{
		At:           at,
		Cwnd:         info.Snd_cwnd,
		Ssthresh:     info.Snd_ssthresh,
		SRTT:         info.SRTT(),
		RTTVar:       info.RTTVar(),
		MinRTT:       info.MinRTT(),
		Retransmits:  uint64(info.Total_retrans),
		DeliveryRate: bits(info.Delivery_rate),
		PacingRate:   bits(info.Pacing_rate),
		DeliveredCE:  info.Delivered_ce,
		BytesAcked:   info.Bytes_acked,
		NotSent:      info.Notsent_bytes,
	})
}

// timeouts counts retransmission timeouts that began a repair; kernels before 6.7 do not report
// them.
func (t *tally) timeouts() uint64 { return uint64(t.latest.Total_rto_recoveries) }

// bits converts bytes per second to bit/s. The kernel writes all ones for "no limit", which becomes
// 0.
func bits(octets uint64) units.BitRate {
	if octets >= ^uint64(0)>>3 {
		return 0
	}
	return units.BitRate(octets * 8)
}

// into adds the connection's figures to its stream's. A stream's time series is that of its first
// connection.
func (t *tally) into(s *traffic.Stream) {
	s.SentSegments += uint64(t.latest.Data_segs_out)
	s.Retransmits += uint64(t.latest.Total_retrans)
	s.DeliveredCE += uint64(t.latest.Delivered_ce)
	s.LossEvents += t.recoveries + t.timeouts()
	s.Busy += t.latest.Busy()
	s.WindowLimited += t.latest.WindowLimited()
	if s.Readings == nil {
		s.Readings = t.readings
	}
}
