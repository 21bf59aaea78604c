// SPDX-License-Identifier: Apache-2.0

package iperf

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"weir/internal/units"
	"weir/lab/traffic"
	"weir/record/hist"
)

// report is the used part of the JSON document of an iperf3 client or server. Numbers are floats
// because iperf3 writes large counts with an exponent.
type report struct {
	Start struct {
		Connected []struct {
			Socket     int `json:"socket"`
			LocalPort  int `json:"local_port"`
			RemotePort int `json:"remote_port"`
		} `json:"connected"`
		MSS float64 `json:"tcp_mss_default"`
	} `json:"start"`
	Intervals []struct {
		Streams []interim `json:"streams"`
	} `json:"intervals"`
	End struct {
		Streams []struct {
			Sender   total `json:"sender"`
			Receiver total `json:"receiver"`
			UDP      total `json:"udp"`
		} `json:"streams"`
	} `json:"end"`
	Error string `json:"error"`
}

// interim holds one stream's figures for one interval: bytes, times in s, and at the client the TCP
// state, RTTs in µs.
type interim struct {
	Socket      int     `json:"socket"`
	Start       float64 `json:"start"`
	Bytes       float64 `json:"bytes"`
	Retransmits float64 `json:"retransmits"`
	Cwnd        float64 `json:"snd_cwnd"`
	RTT         float64 `json:"rtt"`
	RTTVar      float64 `json:"rttvar"`
}

// total holds one stream's totals.
type total struct {
	Socket      int     `json:"socket"`
	End         float64 `json:"end"`
	Bytes       float64 `json:"bytes"`
	Retransmits float64 `json:"retransmits"`
	MeanRTT     float64 `json:"mean_rtt"`
	Packets     float64 `json:"packets"`
	Lost        float64 `json:"lost_packets"`
	OutOfOrder  float64 `json:"out_of_order"`
}

func parse(text []byte) (*report, error) {
	r := new(report)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("read iperf3's report: %w", err)
	}
	return r, nil
}

// read parses the process's output, if any.
func (p *process) read() (err error) {
	if p.stdout.Len() > 0 { // otherwise wait has returned the error
		p.report, err = parse(p.stdout.Bytes())
	}
	return err
}

// fill merges both reports; either may be missing. Streams are in the order in which the client
// opened them; the server's are matched by the client's ports.
func fill(result *traffic.Result, client, server *report) {
	if client == nil {
		client = new(report)
	}
	if server == nil {
		server = new(report)
	}
	sockets, ports, accepted := map[int]int{}, map[int]int{}, map[int]int{}
	for i, c := range client.Start.Connected {
		sockets[c.Socket], ports[c.LocalPort] = i, i
	}
	for _, c := range server.Start.Connected {
		if i, known := ports[c.RemotePort]; known {
			accepted[c.Socket] = i
		}
	}
	result.Streams = make([]traffic.Stream, len(client.Start.Connected))
	if result.Flow.Kind == traffic.Datagram {
		fillDatagrams(result, client, server, sockets, accepted)
	} else {
		fillTCP(result, client, server, sockets, accepted)
	}
	for _, s := range result.Streams {
		result.Goodput += s.Goodput
	}
}

func fillTCP(result *traffic.Result, client, server *report, sockets, accepted map[int]int) {
	result.RTT = new(hist.Histogram)
	for _, interval := range client.Intervals {
		for _, s := range interval.Streams {
			if i, known := sockets[s.Socket]; known {
				addReading(&result.Streams[i], s, client.Start.MSS, result.RTT)
			}
		}
	}
	for _, s := range client.End.Streams {
		if i, known := sockets[s.Sender.Socket]; known {
			result.Streams[i].Retransmits = count(s.Sender.Retransmits)
			result.Streams[i].MeanRTT = micro(s.Sender.MeanRTT)
		}
	}
	addIntervals(result, server, accepted)
	for _, s := range server.End.Streams {
		if i, known := accepted[s.Receiver.Socket]; known {
			result.Streams[i].ReceivedBytes = count(s.Receiver.Bytes)
			result.Streams[i].Goodput = rate(s.Receiver.Bytes, s.Receiver.End)
		}
	}
}

// fillDatagrams takes bytes from the server's intervals: iperf3 3.12 reports none in its UDP
// totals.
func fillDatagrams(result *traffic.Result, client, server *report, sockets, accepted map[int]int) {
	for _, s := range client.End.Streams {
		if i, known := sockets[s.UDP.Socket]; known {
			result.Streams[i].Sent = count(s.UDP.Packets)
		}
	}
	addIntervals(result, server, accepted)
	for _, s := range server.End.Streams {
		if i, known := accepted[s.UDP.Socket]; known {
			stream := &result.Streams[i]
			stream.Arrived = count(s.UDP.Packets - s.UDP.Lost)
			stream.OutOfOrder = count(s.UDP.OutOfOrder)
			stream.Goodput = rate(float64(stream.ReceivedBytes), s.UDP.End)
		}
	}
}

func addIntervals(result *traffic.Result, server *report, accepted map[int]int) {
	for _, interval := range server.Intervals {
		for _, s := range interval.Streams {
			if i, known := accepted[s.Socket]; known {
				addReceived(&result.Streams[i], s, result.Flow.Duration)
			}
		}
	}
}

func addReading(s *traffic.Stream, in interim, mss float64, rtt *hist.Histogram) {
	s.Retransmits += count(in.Retransmits)
	reading := traffic.Reading{At: seconds(in.Start) + traffic.RateInterval, SRTT: micro(in.RTT), RTTVar: micro(in.RTTVar),
		Retransmits: s.Retransmits}
	if mss > 0 {
		reading.Cwnd = uint32(min(count(in.Cwnd/mss), math.MaxUint32))
	}
	s.Readings = append(s.Readings, reading)
	if reading.SRTT > 0 {
		rtt.Record(uint64(reading.SRTT))
	}
}

// addReceived adds an interval's bytes to the bin of its start. iperf3's last interval may lie
// after the flow's end.
func addReceived(s *traffic.Stream, in interim, duration time.Duration) {
	bins := int((duration + traffic.RateInterval - 1) / traffic.RateInterval)
	if s.Received == nil {
		s.Received = make([]uint64, bins)
	}
	octets := count(in.Bytes)
	s.ReceivedBytes += octets
	at := int((seconds(in.Start) + traffic.RateInterval/2) / traffic.RateInterval)
	if at < bins {
		s.Received[at] += octets
	}
}

// count converts a number of iperf3 to a count; an invalid one becomes 0.
func count(v float64) uint64 {
	if v > 0 && v < math.MaxInt64 {
		return uint64(math.Round(v))
	}
	return 0
}

func seconds(v float64) time.Duration { return time.Duration(count(v * 1e9)) }
func micro(v float64) time.Duration   { return time.Duration(count(v * 1e3)) }

func rate(octets, in float64) units.BitRate {
	if in <= 0 {
		return 0
	}
	return units.BitRate(count(octets * 8 / in))
}
