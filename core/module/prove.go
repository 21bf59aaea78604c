// SPDX-License-Identifier: Apache-2.0

package module

import (
	"time"

	"weir/core/policy"
	"weir/internal/direction"
	"weir/internal/units"
)

// Prover is a Module with promises that weir prove tests.
type Prover interface {
	// Checks returns the tests of a scope of the module. Bypasses are tried with the first check
	// that has counters.
	Checks(policy.Scope) []Check
}

// Check is the test of one promise of one scope: the flow to send and the judgement of its result.
// Core chooses the ends of the flow, repeats it on every path, and measures the capacity of the
// path outside all scopes. Only Name and Judge are required.
type Check struct {
	Name      string // of the verdict: "rate"
	Part      string // rows of the scope with the counters, as in Row.Part
	Direction direction.Direction
	// Promise is the promised rate in bytes on the wire; 0 for other promises. Words describes
	// further promises, such as "dctcp" or a tolerance.
	Promise units.BitRate
	Words   string
	// Needs is the minimum capacity of the path outside all scopes; 0 for any.
	Needs units.BitRate
	// Paths reports whether to test a path; nil is all of TCP and UDP.
	Paths func(Path) bool
	// Queued reports that the queue of the device keeps the promise. A detour bypasses it, so the
	// test needs a peer behind the device.
	Queued bool
	// Flow returns the flow on a path; nil is one connection, or datagrams, at 1 Mbit/s.
	Flow func(Path) Flow
	// Warmup is the time before the measurement; Shortest is its minimum duration.
	Warmup, Shortest time.Duration
	// Probed adds small packets beside TCP, at most 1 % of the promise, to measure their loss and
	// delay.
	Probed  bool
	Charged Charge
	// Counters names the counter columns shown beside the measurement.
	Counters []string
	// Value returns the result of a repetition in bit/s; nil is the received rate.
	Value func(Sample) float64
	// Judge compares the measurements with the promise. There is at least one sample.
	Judge func([]Sample, Circumstances) (Verdict, string)
}

// Charge names the columns of a scope's charge counters. The zero value has none, so no bypass can
// be tried.
type Charge struct {
	Octets string // bytes on the wire
	// Packets counts packets in the stack, Segments packets on the wire; "" excludes super-packets.
	Packets, Segments string
	// Dropped counts packets that the module drops at a receiving socket, which the socket counts
	// as buffer overflow; "" if none.
	Dropped string
	// AtDevice reports that all traffic of the device is charged, regardless of its sender.
	AtDevice bool
	// Blind lists traffic of the scope that is not charged on this host.
	Blind []BlindSpot
	// Exempt is the reason why traffic over lo is not charged, with the remedy; "" if it is
	// charged.
	Exempt string
}

// BlindSpot is traffic of a scope that its module does not treat on this host.
type BlindSpot struct {
	Name string // of the bypass, such as ForwardedTraffic
	Text string // mechanism and remedy, one clause
}

// ForwardedTraffic names the bypass of packets that the host forwards or bridges.
const ForwardedTraffic = "forwarded traffic"

// Promised describes the promise; "" if there is none.
func (c Check) Promised() string {
	switch {
	case c.Promise == 0:
		return c.Words
	case c.Words == "":
		return c.Promise.String()
	}
	return c.Promise.String() + ", " + c.Words
}

// Path is the path of a flow.
type Path struct {
	Protocol string `json:"protocol"` // tcp, udp, quic or short
	IPv6     bool   `json:"ipv6"`
}

const (
	TCP = "tcp"
	UDP = "udp"
	// QUIC is datagrams under a congestion control like that of QUIC, with loss if no shaper delays
	// them. Short is TCP transfers with one connection each. Both use one address family, are
	// repeated at most twice, and are judged by their mean.
	QUIC  = "quic"
	Short = "short"
)

// Lasting reports whether the flow is a long-lived TCP or UDP flow.
func (p Path) Lasting() bool { return p.Protocol == TCP || p.Protocol == UDP }

func (p Path) String() string {
	name := map[string]string{TCP: "TCP", UDP: "UDP", QUIC: "QUIC-like", Short: "short TCP"}[p.Protocol]
	if p.IPv6 {
		return name + " IPv6"
	}
	return name + " IPv4"
}

// Flow describes the flow to send.
type Flow struct {
	Connections int           // of TCP; 0 is one
	Rate        units.BitRate // on the wire; 0 is unlimited, for TCP only
	Size        int           // bytes of a short transfer
	// KeepCongestion keeps the scope's congestion control; otherwise core chooses one for the path.
	KeepCongestion bool
}

// Sample is one repetition of a check.
type Sample struct {
	Repetition int     `json:"repetition"`
	Received   float64 `json:"received"` // bit/s on the wire, at the receiver
	// Charged is the rate by the scope's counters in bit/s. Quotient is the charge of the whole
	// flow divided by the received bytes. Both are 0 if the check names no counter.
	Charged  float64 `json:"charged,omitempty"`
	Quotient float64 `json:"charged_times,omitempty"`
	// Counters holds the growth of the module's counters during the measurement.
	Counters   map[string]uint64 `json:"counters,omitempty"`
	Congestion string            `json:"congestion_control,omitempty"` // of the sending TCP socket at its end
	// DSCPs counts packets at the receiver by DSCP: datagrams, or TCP connections by the last
	// packet of their handshake.
	DSCPs map[uint8]uint64 `json:"dscps,omitempty"`
	Busy  float64          `json:"busy"`     // used share of the CPU time of this host
	Delay time.Duration    `json:"delay_ns"` // above the idle round trip, for TCP
	Drops uint64           `json:"drops"`    // datagrams dropped at the receiver's full buffer
	// Left is the payload in bytes that the sender's kernel sent during the measurement, and Again
	// the retransmitted part of it. For QUIC-like flows they are the bytes sent in all, and those
	// that did not arrive.
	Left   uint64 `json:"sent,omitempty"`
	Again  uint64 `json:"sent_again,omitempty"`
	Probes Probes `json:"small_packets,omitzero"`
	// Transfers holds the durations of short transfers, from the handshake to the end.
	Transfers []time.Duration `json:"transfers_ns,omitempty"`
}

// Circumstances holds possible explanations of a low rate.
type Circumstances struct {
	Path     Path
	Capacity units.BitRate  // of the path outside all scopes; 0 is unknown
	Unknown  string         // reason if it is unknown
	Losses   Losses         // of the path outside all scopes, if known
	Around   []policy.Scope // other scopes of the module that match the flow, in policy order
}

// Verdict is the result for a promise.
type Verdict string

const (
	Holds     Verdict = "holds"
	Under     Verdict = "under" // the scope gets less than promised
	Leaks     Verdict = "leaks" // it gets more, or some of its traffic is not charged
	Loses     Verdict = "loses" // it holds, with too much loss
	Fails     Verdict = "fails" // the promise is broken
	CannotSay Verdict = "cannot say"
	InShadow  Verdict = "shadow" // count only
)

// Trier is a Prover that tries bypasses with a separate data plane, without the active policy.
type Trier interface {
	Trials() []Trial
}

// Trial is one such bypass of egress. Core opens a connection from a new cgroup, attaches the trial
// to that cgroup in the network namespace of the connection, and then sends.
type Trial struct {
	Name      string // "sockets open at the attach"
	Mechanism string // start of a sentence about the charge
	Rate      units.BitRate
	Attach    func(cgroup string) (Attached, error)
}

// Attached is a running trial.
type Attached struct {
	Note    string                 // end of that sentence; may be ""
	Charged func() (uint64, error) // bytes so far
	Close   func() error
}
