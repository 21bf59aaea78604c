// SPDX-License-Identifier: Apache-2.0

package station

import (
	"time"

	"weir/internal/units"
)

// Protocol is the protocol of a flow's data.
type Protocol string

const (
	TCP Protocol = "tcp"
	UDP Protocol = "udp"
	// Probe sends small datagrams at the flow's rate; the far station returns them.
	Probe Protocol = "probe"
	// QUIC sends datagrams with congestion control as in QUIC, each acknowledged.
	QUIC Protocol = "quic"
	// Short sends TCP transfers of the flow's size, each on its own connection.
	Short Protocol = "short"
	// Trains sends datagrams in trains, each at its own rate, and reports each arrival.
	Trains Protocol = "trains"
)

// Flow is the traffic between two stations.
type Flow struct {
	Protocol    Protocol `json:"protocol"`
	Connections int      `json:"connections"` // of TCP; a UDP flow is one socket pair
	// Rate is the offered rate in bit/s of payload; 0 lets TCP send as fast as it can. UDP requires
	// a rate.
	Rate units.BitRate `json:"rate,omitempty"`
	// Reverse makes the far station send to the near one.
	Reverse bool `json:"reverse,omitempty"`
	// Size is the number of bytes of a short transfer.
	Size int `json:"size,omitempty"`
	// Congestion is the congestion control of both ends of TCP; "" is the host's default.
	Congestion string `json:"congestion,omitempty"`
}

// possible reports whether a server accepts the flow.
func (f Flow) possible() bool {
	switch {
	case f.Connections < 1 || f.Connections > maxConnections:
		return false
	case f.Protocol == Short:
		return f.Size > 0 && f.Size <= maxSize
	}
	return f.Protocol == TCP || f.Protocol == QUIC || f.datagrams() && f.Rate > 0
}

// datagrams reports whether the flow uses UDP.
func (f Flow) datagrams() bool {
	return f.Protocol == UDP || f.Protocol == Probe || f.Protocol == QUIC || f.Protocol == Trains
}

// maxSize is the maximum size of a short transfer.
const maxSize = 1 << 20

// Payload is the payload of a UDP datagram in bytes: it fits every path, including IPv6's minimum
// MTU of 1280.
const Payload = 1200

// Ethernet is the number of bytes per packet beyond IP in this package's wire bytes, as in an
// interface's counters.
const Ethernet = 14

// Tally holds the counters of a station since it was opened.
type Tally struct {
	At       time.Duration `json:"at"`       // time since the station was opened
	Octets   uint64        `json:"octets"`   // payload received
	Wire     uint64        `json:"wire"`     // received, with IP, transport and Ethernet headers
	Segments uint64        `json:"segments"` // received
	// Drops counts datagrams that the socket rejected because its buffer was full or by a limit. No
	// other counter includes them.
	Drops uint64 `json:"drops"`
	Sent  uint64 `json:"sent"` // payload handed to the kernel
	// Left is the payload sent by the kernel, with retransmissions, and Again the retransmitted
	// part; for TCP only, 0 before Linux 4.19.
	Left  uint64 `json:"left,omitempty"`
	Again uint64 `json:"again,omitempty"`
}

// Since returns the difference to an earlier tally.
func (t Tally) Since(before Tally) Tally {
	return Tally{At: t.At - before.At, Octets: t.Octets - before.Octets, Wire: t.Wire - before.Wire,
		Segments: t.Segments - before.Segments, Drops: t.Drops - before.Drops, Sent: t.Sent - before.Sent,
		Left: t.Left - before.Left, Again: t.Again - before.Again}
}

// Delay is the round-trip time measured by the sender's kernel (TCP_INFO); zero for UDP.
type Delay struct {
	Idle time.Duration `json:"idle"` // the shortest
	Mean time.Duration `json:"mean"` // of the smoothed one, while it sent
}

// command is a command to a station. Do is send, measure, report or stop.
type command struct {
	Do       string        `json:"do"`
	Warmup   time.Duration `json:"warmup,omitempty"`
	Duration time.Duration `json:"duration,omitempty"`
}

// Event is a report of a station: ready, begin and end of a measurement, stopped, or an error that
// ends it.
type Event struct {
	Event   string `json:"event"`
	Session string `json:"session,omitempty"`
	Tally   Tally  `json:"tally,omitzero"`
	Delay   Delay  `json:"delay,omitzero"`
	Problem string `json:"problem,omitempty"`
	// Congestion is the congestion control of the station's TCP sockets, at their end.
	Congestion string `json:"congestion_control,omitempty"`
	// DSCPs counts packets received by the station by class, at its end.
	DSCPs DSCPs `json:"dscps,omitempty"`
	// Echoes are the probes sent by the station, at its end.
	Echoes []Echo `json:"echoes,omitempty"`
	// Arrivals are the datagrams of trains received since the last report.
	Arrivals []Arrival `json:"arrivals,omitempty"`
}
