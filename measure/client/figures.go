// SPDX-License-Identifier: Apache-2.0

package client

import (
	"slices"
	"time"

	"weir/measure/record"
	"weir/measure/session"
)

// Sources of a rate.
const (
	sourceClient   = "payload that the client received"
	sourceServer   = "payload that the server received"
	sourceTCP      = "TCP bytes that the server received, overheads included"
	sourceSender   = "bytes that the client wrote to its socket"
	whileAllStream = ", while all streams ran"
)

// figures are those of one stream. The receiver counts the rate, the sender's TCP the RTT and the
// retransmissions.
type figures struct {
	uuid                string
	payload             uint64
	seconds             float64
	rate, senderRate    float64 // bit/s
	source              string
	rtts                []float64 // s, smoothed by the sender
	minRTT              float64   // s; 0 if it is not known
	sent, retransmitted int64     // bytes
}

func figuresOf(raw session.ClientResult, d record.Direction) (f figures) {
	last := lastOfServer(raw.Events)
	if last != nil && last.ConnectionInfo != nil {
		f.uuid = last.ConnectionInfo.UUID
	}
	f.payload, f.seconds = raw.Payload, raw.Elapsed.Seconds()
	if f.seconds > 0 {
		f.rate = float64(raw.Payload) * 8 / f.seconds
	}
	sender := raw.Last
	if d == record.Download {
		f.source, sender = sourceClient, nil
		for _, e := range raw.Events {
			if e.Origin == "server" && e.TCPInfo != nil {
				sender = e.TCPInfo
				f.rtts = append(f.rtts, float64(e.TCPInfo.RTT)/1e6)
			}
		}
	} else {
		f.countUpload(last)
		for _, rtt := range raw.Samples.RTT {
			f.rtts = append(f.rtts, float64(rtt)/1e6)
		}
	}
	if sender != nil {
		f.minRTT, f.sent, f.retransmitted = float64(sender.MinRTT)/1e6, sender.BytesSent, sender.BytesRetrans
	}
	return f
}

// countUpload takes the receiver's figure. A sender counts bytes that are still in its buffers.
func (f *figures) countUpload(last *record.Measurement) {
	f.senderRate, f.source = f.rate, sourceSender
	switch {
	case last != nil && last.AppInfo != nil && last.AppInfo.ElapsedTime > 0:
		f.rate, f.source = float64(last.AppInfo.NumBytes)*8e6/float64(last.AppInfo.ElapsedTime), sourceServer
		f.payload, f.seconds = uint64(last.AppInfo.NumBytes), float64(last.AppInfo.ElapsedTime)/1e6
	case last != nil && last.TCPInfo != nil && last.TCPInfo.ElapsedTime > 0:
		f.rate, f.source = float64(last.TCPInfo.BytesReceived)*8e6/float64(last.TCPInfo.ElapsedTime), sourceTCP
		f.seconds = float64(last.TCPInfo.ElapsedTime) / 1e6
	}
}

// combine computes the result from its streams.
func (r *Result) combine(streams []session.ClientResult) {
	var rtts []float64
	var senderRate, minRTT float64
	var sent, retransmitted int64
	for i, raw := range streams {
		f := figuresOf(raw, r.Direction)
		if i == 0 {
			r.UUID, r.RateSource = f.uuid, f.source
		}
		if f.source == sourceSender {
			r.RateSource = f.source // a single one makes the sum a sender's
		}
		r.Rate += f.rate
		r.Payload += f.payload
		r.Duration = max(r.Duration, f.seconds)
		senderRate += f.senderRate
		rtts = append(rtts, f.rtts...)
		if f.minRTT > 0 && (minRTT == 0 || f.minRTT < minRTT) {
			minRTT = f.minRTT
		}
		sent, retransmitted = sent+f.sent, retransmitted+f.retransmitted
		if len(streams) > 1 {
			r.StreamRates = append(r.StreamRates, f.rate)
		}
	}
	if rate, ok := commonRate(streams, r.Direction); ok && len(streams) > 1 && r.RateSource != sourceSender {
		r.Rate = rate
		r.RateSource += whileAllStream
	}
	if senderRate > 0 {
		r.SenderRate = &senderRate
	}
	if minRTT > 0 {
		r.MinRTT = &minRTT
	}
	if sent > 0 {
		share := float64(retransmitted) / float64(sent)
		r.Retransmitted = &share
	}
	if len(rtts) > 0 {
		slices.Sort(rtts)
		r.LoadedRTT = &rtts[len(rtts)/2]
	}
}

// count is the receiver's payload of a stream at a time.
type count struct {
	at    time.Duration // since the start of the first stream
	bytes float64
}

// counts returns the receiver's counts of a stream, in the order of time.
func counts(raw session.ClientResult, d record.Direction, epoch time.Time) []count {
	receiver := "client"
	if d == record.Upload {
		receiver = "server"
	}
	start := raw.Started.Sub(epoch)
	all := []count{{start, 0}}
	add := func(elapsed time.Duration, bytes uint64) {
		if at := start + elapsed; at > all[len(all)-1].at {
			all = append(all, count{at, float64(bytes)})
		}
	}
	for _, e := range raw.Events {
		if e.Origin == receiver && e.AppInfo != nil && e.AppInfo.NumBytes >= 0 {
			add(time.Duration(e.AppInfo.ElapsedTime)*time.Microsecond, uint64(e.AppInfo.NumBytes))
		}
	}
	if d == record.Download {
		add(raw.Elapsed, raw.Payload)
	}
	return all
}

// bytesAt interpolates the count at a time within the counts.
func bytesAt(all []count, at time.Duration) float64 {
	for i := 1; i < len(all); i++ {
		if a, b := all[i-1], all[i]; at <= b.at {
			return a.bytes + (b.bytes-a.bytes)*float64(at-a.at)/float64(b.at-a.at)
		}
	}
	return all[len(all)-1].bytes
}

// commonRate returns the rate of all streams in bit/s in the time in which all of them ran; false
// if there is none.
func commonRate(streams []session.ClientResult, d record.Direction) (rate float64, ok bool) {
	all := make([][]count, len(streams))
	var from, to time.Duration
	for i, raw := range streams {
		all[i] = counts(raw, d, streams[0].Started)
		first, last := all[i][0].at, all[i][len(all[i])-1].at
		if i == 0 {
			from, to = first, last
		}
		from, to = max(from, first), min(to, last)
	}
	if to <= from {
		return 0, false
	}
	for _, c := range all {
		rate += (bytesAt(c, to) - bytesAt(c, from)) * 8 / (to - from).Seconds()
	}
	return rate, true
}
