// SPDX-License-Identifier: Apache-2.0

// Package traffic generates the load of an experiment and measures it at the receiver: bulk TCP,
// request/response, transfers with random arrivals and UDP at a rate, by Weir's own generator or by
// iperf3, and the traffic of other programs.
package traffic

import (
	"context"
	"net/netip"
	"time"

	"weir/internal/units"
	"weir/kernel/netns"
	"weir/lab/traffic/workload"
	"weir/record/hist"
)

// Kind is the kind of a flow.
type Kind string

const (
	Bulk      Kind = "bulk"      // TCP, as fast as congestion control allows, From to To
	Request   Kind = "request"   // TCP request/response: From sends requests, To responses
	Transfers Kind = "transfers" // TCP connections with random arrivals, one size each, From to To
	Datagram  Kind = "udp"       // UDP at a rate, From to To
	Program   Kind = "command"   // traffic of users' programs, From to To
)

// Flow is one flow of a phase, or Streams identical ones.
type Flow struct {
	Name        string
	Kind        Kind
	From, To    string // host names
	Family      int    // IP version: 4 or 6; 0 is 4
	Generator   string // Generator.Name of the required generator; "" is any
	Congestion  string // TCP congestion control; "" is the host's default
	DSCP        uint8  // 0-63
	ECN         bool   // request ECN (a route feature of the sender and the receiver's sysctl)
	Streams     int    // at least 1
	Start       time.Duration
	Duration    time.Duration
	Request     units.ByteSize // Request: bytes of a request, at least 1
	Response    units.ByteSize // Request: bytes of a response, at least 1
	Concurrency int            // Request: exchanges in flight per stream's connection set, at least 1
	Rate        units.BitRate  // Datagram: of UDP payload, all streams together; Bulk: application limit, 0 is none
	Payload     int            // Datagram: bytes of payload per datagram
	Bytes       units.ByteSize // Bulk: stop each stream after this much; 0 runs for Duration
	Command     *Command       // Program
	Load        *workload.Load // Transfers
}

// Command generates a flow of kind Program. Lines are for /bin/sh.
type Command struct {
	Run    string // ends the flow when it ends
	AtTo   bool   // Run runs at To and Server at From; else the other way round
	Server string // at the other end; started before the flow and ended after it; "" for none
	Port   int    // that Server listens on before the flow begins, TCP or UDP; 0 for none
}

// ProgramRun describes the end of a program of a flow.
type ProgramRun struct {
	Role    string // "command" or "server"
	Host    string
	Line    string
	Status  int  // its exit status; -1 if a signal ended it or it did not start
	Stopped bool // at the flow's end, by the generator
	Took    time.Duration
	Output  string // the end of its standard output and error
}

// Endpoint is one end of a flow.
type Endpoint struct {
	Namespace *netns.Namespace
	Address   netip.Addr
	Group     Group  // the cgroup of its traffic; nil: this process's own
	Hosts     string // replaces /etc/hosts for programs; "" does not
}

// Group is a cgroup for traffic.
type Group interface {
	// Socket makes a socket that belongs to the cgroup, like socket(2).
	Socket(ns *netns.Namespace, family, kind int) (fd int, err error)
	// Directory is the cgroup's directory in the v2 hierarchy, for new processes.
	Directory() string
}

// Reading is one sample of a TCP connection's state (TCP_INFO, linux/tcp.h) at the sender.
type Reading struct {
	At                       time.Duration // since the flow began
	Cwnd, Ssthresh           uint32        // segments
	SRTT, RTTVar, MinRTT     time.Duration
	Retransmits              uint64 // segments, total
	DeliveryRate, PacingRate units.BitRate
	DeliveredCE              uint32 // segments, total
	BytesAcked               uint64 // total
	NotSent                  uint32 // bytes
}

// Stream is the result of one connection or one datagram stream.
type Stream struct {
	ReceivedBytes uint64        // payload, counted by the receiver within [Start, Start+Duration]
	Goodput       units.BitRate // ReceivedBytes over the flow's duration, or over Finished if that is set
	// Finished is the arrival of the last byte of a flow with a byte limit, since the flow began; 0
	// if it did not arrive.
	Finished     time.Duration
	SentSegments uint64 // TCP: data segments sent, retransmissions included
	Retransmits  uint64 // TCP
	// LossEvents (TCP) counts the sender's entries into recovery and its timeouts: see
	// Result.LossEventsExact.
	LossEvents  uint64
	DeliveredCE uint64 // TCP: segments acknowledged with ECE
	// Busy (TCP) is the time with data to send. WindowLimited is the part of it in which the
	// receive window or the send buffer limited the sender. Both are 0 if the kernel (before 4.10)
	// or the generator does not report them.
	Busy, WindowLimited time.Duration
	MeanRTT             time.Duration // TCP: mean of the SRTT samples
	Readings            []Reading
	// Received holds the bytes received in each RateInterval from the flow's start: of Weir's bulk
	// flows by the arrival of their segments, in order or not, otherwise by the time of reading.
	Received                              []uint64
	Sent, Arrived, Duplicates, OutOfOrder uint64 // Datagram
	// ReceiverDrops (Datagram) counts drops at the receiver's full socket buffer: any makes the
	// loss figure wrong.
	ReceiverDrops uint64
}

// Transfer is one transfer of an open loop that has begun.
type Transfer struct {
	Octets uint64
	Due    time.Duration // due start, since the flow began
	Begun  time.Duration // time of its connect call, since the flow began
	// Took is the time from that call until the receiver had read the last byte; 0 if it had not by
	// the flow's end.
	Took time.Duration
}

// MaxLate is the maximum lateness of a transfer, and the maximum time before the flow's end at
// which one may be left out. It equals the longest stall that the gate tolerates.
const MaxLate = 50 * time.Millisecond

// RateInterval is the width of a receiver's rate samples.
const RateInterval = 100 * time.Millisecond

// Result is the result of a flow.
type Result struct {
	Flow      Flow
	Generator string
	// Congestion is the congestion control of TCP's senders; "" if the generator does not report
	// it.
	Congestion string
	Streams    []Stream        // one for transfers, with all connections together
	Transfers  []Transfer      // Transfers: those that have begun, in order of time
	Goodput    units.BitRate   // all streams together
	Exchanges  *hist.Histogram // Request: completion time of each exchange in ns; nil otherwise
	RTT        *hist.Histogram // TCP: SRTT samples in ns; nil otherwise
	// Delay (Datagram) is the time from each datagram's send call to the call that read it, in ns;
	// nil if unknown.
	Delay *hist.Histogram
	// LossEventsExact reports that the streams' LossEvents add up to the kernel's own counts.
	// Otherwise they are a lower bound from samples: events closer together than two samples count
	// once.
	LossEventsExact bool
	Failed          string // why the flow ended early, or ""
	Programs        []ProgramRun
	Reported        units.BitRate // Program: the rate that the command printed last; 0 if none
}

// Generator is a program that generates flows.
type Generator interface {
	// Name is "weir" or "iperf3".
	Name() string
	// Check reports whether it can generate the flow on this host; its error has advice.
	Check(Flow) error
	// Run generates the flow, waits Flow.Start first, and returns when it is over. A cancelled ctx
	// ends it early.
	Run(ctx context.Context, flow Flow, from, to Endpoint) (Result, error)
}

// Preparer is a generator that prepares flows before their start.
type Preparer interface {
	// Prepare prepares a flow. The caller calls Run at most once, then Close.
	Prepare(ctx context.Context, flow Flow, from, to Endpoint) (Ready, error)
}

// Ready is a flow that can begin.
type Ready interface {
	// Run runs the prepared flow, like [Generator.Run].
	Run(ctx context.Context) (Result, error)
	// Close ends the rest of the flow. It may be called twice.
	Close()
}

// Unprepared wraps a flow of a generator without preparation.
func Unprepared(generator Generator, flow Flow, from, to Endpoint) Ready {
	return unprepared{generator, flow, from, to}
}

type unprepared struct {
	generator Generator
	flow      Flow
	from, to  Endpoint
}

func (u unprepared) Run(ctx context.Context) (Result, error) {
	return u.generator.Run(ctx, u.flow, u.from, u.to)
}

func (unprepared) Close() {}
