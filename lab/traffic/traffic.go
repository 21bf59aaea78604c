// SPDX-License-Identifier: Apache-2.0

// Package traffic generates the load of an experiment and measures it at the receiver: bulk TCP,
// request/response, transfers that come at random and UDP at a rate, by Weir's own generator or by
// iperf3, and whatever other programs send.
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

// Kind is what a flow does.
type Kind string

const (
	Bulk      Kind = "bulk"      // TCP, as fast as congestion control allows, From to To
	Request   Kind = "request"   // TCP request/response: From asks, To answers
	Transfers Kind = "transfers" // TCP connections that come at random and send a size each, From to To
	Datagram  Kind = "udp"       // UDP at a rate, From to To
	Program   Kind = "command"   // what programs of the user's send, From to To
)

// Flow is one flow of a phase, or Streams identical ones.
type Flow struct {
	Name        string
	Kind        Kind
	From, To    string // host names
	Family      int    // version of IP: 4 or 6; 0 is 4
	Generator   string // Generator.Name of the one that must generate it; "" is any
	Congestion  string // TCP congestion control; "" is the host's default
	DSCP        uint8  // 0-63
	ECN         bool   // ask for ECN (a route feature of the sender and the receiver's sysctl)
	Streams     int    // at least 1
	Start       time.Duration
	Duration    time.Duration
	Request     units.ByteSize // Request: octets asked with, at least 1
	Response    units.ByteSize // Request: octets answered with, at least 1
	Concurrency int            // Request: exchanges in flight per stream's connection set, at least 1
	Rate        units.BitRate  // Datagram: of UDP payload, all streams together; Bulk: application limit, 0 is none
	Payload     int            // Datagram: octets of payload per datagram
	Bytes       units.ByteSize // Bulk: stop each stream after this much; 0 runs for Duration
	Command     *Command       // Program
	Load        *workload.Load // Transfers
}

// Command is what generates a flow of kind Program. Lines are for /bin/sh.
type Command struct {
	Run    string // ends the flow when it ends
	AtTo   bool   // Run runs at To and Server at From; else the other way round
	Server string // at the other end; started before the flow and ended after it; "" for none
	Port   int    // that Server listens on before the flow begins, TCP or UDP; 0 for none
}

// ProgramRun is what became of a program that a flow ran.
type ProgramRun struct {
	Role    string // "command" or "server"
	Host    string
	Line    string
	Status  int  // its exit status; -1 where a signal ended it or it could not be run
	Stopped bool // at the flow's end, by the generator
	Took    time.Duration
	Output  string // the end of what it printed, on standard output and error
}

// Endpoint is where one end of a flow lives.
type Endpoint struct {
	Namespace *netns.Namespace
	Address   netip.Addr
	Group     Group  // the cgroup that its traffic belongs to; nil: this process's own
	Hosts     string // the file that programs find in the place of /etc/hosts; "" leaves that
}

// Group is a cgroup for traffic.
type Group interface {
	// Socket makes a socket that belongs to the cgroup, as socket(2) does.
	Socket(ns *netns.Namespace, family, kind int) (fd int, err error)
	// Directory is the cgroup's in the v2 hierarchy, for processes that start in it.
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
	NotSent                  uint32 // octets
}

// Stream is one connection's or one datagram stream's outcome.
type Stream struct {
	ReceivedBytes uint64        // payload, counted by the receiver within [Start, Start+Duration]
	Goodput       units.BitRate // ReceivedBytes over the flow's duration, or over Finished where that is set
	// Finished is when the last octet of a flow with a byte limit had arrived, since the flow
	// began; 0 if it had not.
	Finished     time.Duration
	SentSegments uint64 // TCP: data segments sent, retransmissions included
	Retransmits  uint64 // TCP
	// LossEvents (TCP) are the times the sender entered recovery or timed out: see
	// Result.LossEventsExact.
	LossEvents  uint64
	DeliveredCE uint64 // TCP: segments acknowledged with ECE
	// Busy (TCP) is the time with data to send, and WindowLimited the part of it in which the
	// receiver's window or the send buffer was what held the sender back. Both are 0 where the
	// kernel (before 4.10) or the generator does not tell.
	Busy, WindowLimited time.Duration
	MeanRTT             time.Duration // TCP: mean of the SRTT samples
	Readings            []Reading
	// Received are octets received in each interval of RateInterval, from the flow's start: of
	// Weir's bulk flows by when their segments came, in order or not, else by when they were read.
	Received                              []uint64
	Sent, Arrived, Duplicates, OutOfOrder uint64 // Datagram
	// ReceiverDrops (Datagram) are those that the receiver's own full socket buffer lost: any makes
	// the loss figure wrong.
	ReceiverDrops uint64
}

// Transfer is one transfer of an open loop, which has begun.
type Transfer struct {
	Octets uint64
	Due    time.Duration // when it was to begin, since the flow began
	Begun  time.Duration // when it called connect, since the flow began
	// Took is the time from that call until the receiver had read its last octet; 0 if it had not
	// by the flow's end.
	Took time.Duration
}

// LateMost is how late a transfer may begin, and how shortly before the flow's end one may be left
// out: as long as the gate lets an emulator stand still.
const LateMost = 50 * time.Millisecond

// RateInterval is the width of a receiver's rate samples.
const RateInterval = 100 * time.Millisecond

// Result is what a flow did.
type Result struct {
	Flow      Flow
	Generator string
	// Congestion is the congestion control that TCP's senders used; "" where the generator does not
	// tell.
	Congestion string
	Streams    []Stream        // of Transfers one, all connections together
	Transfers  []Transfer      // Transfers: those that have begun, in order of time
	Goodput    units.BitRate   // all streams together
	Exchanges  *hist.Histogram // Request: completion time of each exchange in ns; nil otherwise
	RTT        *hist.Histogram // TCP: SRTT samples in ns; nil otherwise
	// Delay (Datagram) is the time from each datagram's send call to the call that read it, in ns;
	// nil where not known.
	Delay *hist.Histogram
	// LossEventsExact says that the streams' LossEvents add up to the kernel's own counts.
	// Otherwise they are a lower bound from samples, which merges events that lie closer together
	// than two samples.
	LossEventsExact bool
	Failed          string // why the flow broke off early; "" if it did not
	Programs        []ProgramRun
	Reported        units.BitRate // Program: the rate that the command printed last; 0 if none
}

// Generator is a program that generates flows.
type Generator interface {
	// Name is "weir" or "iperf3".
	Name() string
	// Check says whether it can generate the flow on this host, and what to do if not.
	Check(Flow) error
	// Run generates the flow, waits Flow.Start first, and returns when it is over. A cancelled ctx
	// ends it early.
	Run(ctx context.Context, flow Flow, from, to Endpoint) (Result, error)
}

// Preparer is a generator that has something to do before a flow's time begins.
type Preparer interface {
	// Prepare does it. The caller calls Run once, or not, and Close.
	Prepare(ctx context.Context, flow Flow, from, to Endpoint) (Ready, error)
}

// Ready is a flow that can begin.
type Ready interface {
	// Run is [Generator.Run] from there on.
	Run(ctx context.Context) (Result, error)
	// Close ends what is left of the flow. It may be called twice.
	Close()
}

// Unprepared is a flow of a generator that has nothing to do before.
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
