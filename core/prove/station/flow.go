// SPDX-License-Identifier: Apache-2.0

package station

import (
	"time"

	"weir/internal/units"
)

// Protocol of a flow's data.
type Protocol string

const (
	TCP Protocol = "tcp"
	UDP Protocol = "udp"
	// Probe is small datagrams at the flow's rate, which the far station sends back.
	Probe Protocol = "probe"
	// QUIC is datagrams under a control like QUIC's, each acknowledged.
	QUIC Protocol = "quic"
	// Short is TCP transfers of the flow's size, each by a connection of its own.
	Short Protocol = "short"
	// Trains is datagrams in trains, each at a rate of its own, whose arrivals are told one by one.
	Trains Protocol = "trains"
)

// Flow is what two stations do together.
type Flow struct {
	Protocol    Protocol `json:"protocol"`
	Connections int      `json:"connections"` // of TCP; a UDP flow is one socket pair
	// Rate is what is offered, in bit/s of payload; 0 lets TCP send as fast as it can. UDP needs
	// one.
	Rate units.BitRate `json:"rate,omitempty"`
	// Reverse makes the far station send to the near one.
	Reverse bool `json:"reverse,omitempty"`
	// Size is the octets of a short transfer.
	Size int `json:"size,omitempty"`
	// Congestion is the congestion control of both ends of TCP; "" is the host's default.
	Congestion string `json:"congestion,omitempty"`
}

// possible says whether a server takes part in the flow.
func (f Flow) possible() bool {
	switch {
	case f.Connections < 1 || f.Connections > maxConnections:
		return false
	case f.Protocol == Short:
		return f.Size > 0 && f.Size <= maxSize
	}
	return f.Protocol == TCP || f.Protocol == QUIC || f.datagrams() && f.Rate > 0
}

// datagrams says whether the flow goes by UDP.
func (f Flow) datagrams() bool {
	return f.Protocol == UDP || f.Protocol == Probe || f.Protocol == QUIC || f.Protocol == Trains
}

// maxSize bounds a short transfer.
const maxSize = 1 << 20

// Payload is the octets of a UDP datagram: any path carries it, IPv6's least MTU of 1280 included.
const Payload = 1200

// Ethernet is what a packet has beyond IP in this package's wire octets, as in an interface's
// counters.
const Ethernet = 14

// Tally is what a station has counted since it was opened.
type Tally struct {
	At       time.Duration `json:"at"`       // when it was read, since the station was opened
	Octets   uint64        `json:"octets"`   // payload received
	Wire     uint64        `json:"wire"`     // received, with IP, transport and Ethernet headers
	Segments uint64        `json:"segments"` // received
	// Drops are datagrams that the socket did not take: its buffer was full, or a limit has refused
	// them. They are in no other figure.
	Drops uint64 `json:"drops"`
	Sent  uint64 `json:"sent"` // payload handed to the kernel
	// Left is the payload that the kernel has sent, what it sent again included, and Again is what
	// it sent again; of TCP alone, 0 before Linux 4.19.
	Left  uint64 `json:"left,omitempty"`
	Again uint64 `json:"again,omitempty"`
}

// Since is what came after an earlier tally.
func (t Tally) Since(before Tally) Tally {
	return Tally{At: t.At - before.At, Octets: t.Octets - before.Octets, Wire: t.Wire - before.Wire,
		Segments: t.Segments - before.Segments, Drops: t.Drops - before.Drops, Sent: t.Sent - before.Sent,
		Left: t.Left - before.Left, Again: t.Again - before.Again}
}

// Delay is the round-trip time that a sender's kernel has seen (TCP_INFO); zero for UDP.
type Delay struct {
	Idle time.Duration `json:"idle"` // the shortest
	Mean time.Duration `json:"mean"` // of the smoothed one, while it sent
}

// command is what a station is told. Do is send, measure, report or stop.
type command struct {
	Do       string        `json:"do"`
	Warmup   time.Duration `json:"warmup,omitempty"`
	Duration time.Duration `json:"duration,omitempty"`
}

// Event is what a station says: ready, begin and end of a measurement, stopped, or a problem that
// ends it.
type Event struct {
	Event   string `json:"event"`
	Session string `json:"session,omitempty"`
	Tally   Tally  `json:"tally,omitzero"`
	Delay   Delay  `json:"delay,omitzero"`
	Problem string `json:"problem,omitempty"`
	// Congestion is the congestion control of the station's TCP sockets, at their end.
	Congestion string `json:"congestion_control,omitempty"`
	// DSCPs counts what has come to the station by class, at its end.
	DSCPs DSCPs `json:"dscps,omitempty"`
	// Echoes are the probes that the station has sent, at its end.
	Echoes []Echo `json:"echoes,omitempty"`
	// Arrivals are the datagrams of trains that have come since the last report.
	Arrivals []Arrival `json:"arrivals,omitempty"`
}
