// SPDX-License-Identifier: Apache-2.0

// Package tester describes what a frame tester sends and what it has counted: streams, schedules,
// counters. Its rooms do the work: frame builds frames, generator and packet send them, analyzer
// judges them in BPF, rfc2544 searches with them.
//
// Every stamped frame ends with 18 octets: an 8-octet sequence number and a 10-octet IEEE 1588 time
// (48 bits of seconds, 32 of nanoseconds, TAI), big endian, so a stamp fits a 64-octet frame. Frame
// sizes include the FCS, as in RFC 2544.
package tester

import (
	"net"
	"net/netip"
	"time"

	"weir/record/hist"
)

const (
	// StampSize is what a stamp takes at the end of the payload.
	StampSize = 18
	// MaxStreams is the number of streams that run at once.
	MaxStreams = 4096
	// FCSSize is counted in frame sizes and never seen by software.
	FCSSize = 4
	// WireOverhead is preamble, start delimiter and the minimum inter-frame gap: what a frame of
	// FrameSize octets occupies on the wire beyond them.
	WireOverhead = 20
)

// Action is what a modifier does to its field from frame to frame.
type Action string

const (
	Increment Action = "increment"
	Decrement Action = "decrement"
	Random    Action = "random"
)

// Modifier changes masked bits of the frame's header from frame to frame
// (draft-ietf-bmwg-network-tester-cfg). Offset counts octets from the start of the Ethernet header;
// Mask is one to four octets. Checksums stay valid.
type Modifier struct {
	Action      Action
	Offset      int
	Mask        []byte
	Repetitions int // frames sent with each value; 0 is 1
}

// Header is what the frames of a stream carry in front of their payload.
type Header struct {
	SourceMAC, DestinationMAC   net.HardwareAddr
	VLAN                        int        // 802.1Q identifier 1-4094; 0 is untagged
	PCP                         int        // 802.1p priority with VLAN
	Source, Destination         netip.Addr // both of one family
	SourcePort, DestinationPort uint16
	DSCP, ECN                   uint8
	TTL                         uint8 // 0 is 64
}

// Stream is one sequence of frames with its own rate.
type Stream struct {
	ID        uint16 // carried in the upper 16 bits of the sequence number; unique in a schedule, below MaxStreams
	Name      string
	Header    Header
	Sizes     []SizeShare // one entry for a fixed size; several for a mix such as IMIX
	Stamped   bool        // sequence and time in the payload; otherwise Payload, repeated
	Payload   []byte
	Modifiers []Modifier
	Gap       time.Duration // from one frame's start to the next one's; 0 is as fast as possible
	Burst     int           // frames sent back to back per Gap·Burst; 0 and 1 are evenly spaced
	Start     time.Duration // after the schedule's start
	Frames    uint64        // stop the stream after so many; 0 runs to the schedule's end
}

// SizeShare is one frame size of a mix and its weight.
type SizeShare struct {
	Size   int // octets, FCS included: 64-9000, 68 at least with a VLAN tag
	Weight int
}

// Policy is what a generator does with frames it could not send in time.
type Policy string

const (
	Skip    Policy = "skip"     // leave out what is late; the rate is missed and said so, gaps stay right
	CatchUp Policy = "catch-up" // send late frames back to back; the count stays right
	Space   Policy = "space"    // move all that follows: no two frames are closer than 7/8 of the gap, and the rate is missed
)

// Schedule is what one generator sends.
type Schedule struct {
	Streams    []Stream
	Sequential bool          // one stream after another in ID order, as in the IETF model; each needs Frames
	Duration   time.Duration // the program itself stops by then, whatever became of its controller
	MaxFrames  uint64        // and after so many frames; 0 is no such limit
	Policy     Policy
	Tolerance  time.Duration // Skip: what is late by less is sent all the same; a frame is skipped from a gap on in any case
	Batch      int           // frames sent together where no gap asks otherwise; 1 for latency, 0 lets the mechanism choose
	// Coalesce is how long a paced frame may wait for those behind it, to leave together with them:
	// one doorbell for all of them, as of a network card that coalesces interrupts. It counts where
	// Batch is 0 and the mechanism is that of live frames; 0 sends each frame when it is due.
	Coalesce time.Duration
}

// Sent is what a generator has sent, per stream.
type Sent struct {
	Stream       uint16        `json:"stream"`
	Frames       uint64        `json:"frames"`
	WireBytes    uint64        `json:"wire_bytes"`    // with FCS, preamble and gap
	PayloadBytes uint64        `json:"payload_bytes"` // UDP payload
	Late         uint64        `json:"late"`          // frames sent after they were due, by more than Generation.LateAfter
	Skipped      uint64        `json:"skipped"`       // due and not sent (Skip)
	First        time.Duration `json:"first_ns"`      // send times on CLOCK_MONOTONIC of the sender, ns in JSON; zero without frames
	Last         time.Duration `json:"last_ns"`
}

// Generation is a generator's account of a finished or running schedule.
type Generation struct {
	Mechanism string          `json:"mechanism"` // "XDP live frames", "AF_XDP"
	Sent      []Sent          `json:"sent"`
	Refused   uint64          `json:"refused"` // frames of Sent that the device did not take: its ring was full or its peer not ready
	LateAfter time.Duration   `json:"late_after_ns"`
	Lateness  *hist.Histogram `json:"lateness_ns"` // ns between due and sent, of all paced frames
	Ended     string          `json:"ended"`       // "schedule", "frame limit", "deadline", "stopped", or an error's text
}

// Counts is what the analyzer has found out about one stream, exactly. All delays are in ns.
type Counts struct {
	Stream          uint16          `json:"stream"`
	Received        uint64          `json:"received"` // stamped frames of the stream, duplicates included
	WireBytes       uint64          `json:"wire_bytes"`
	PayloadBytes    uint64          `json:"payload_bytes"`
	Unique          uint64          `json:"unique"`
	Lost            uint64          `json:"lost"`            // RFC 7680: sequence numbers below the highest seen that never arrived in time, see OutOfWindow
	Duplicates      uint64          `json:"duplicates"`      // RFC 5560
	Reordered       uint64          `json:"reordered"`       // RFC 4737 section 3: sequence number below the next expected one
	MaxExtent       uint64          `json:"max_extent"`      // RFC 4737 section 4.2.1: the largest reordering extent, in frames
	SequenceErrors  uint64          `json:"sequence_errors"` // frames that were not the next expected one
	PayloadErrors   uint64          `json:"payload_errors"`  // wrong UDP checksum: counted in Received, their sequence number as lost
	HeaderErrors    uint64          `json:"header_errors"`   // wrong IPv4 header checksum: like PayloadErrors
	OutOfWindow     uint64          `json:"out_of_window"`   // too old to tell a duplicate from a late frame: in Received alone, and among the lost
	Restarts        uint64          `json:"restarts"`        // times that numbers went back while stamps went on: the sender began anew, or there are two
	Misnumbered     uint64          `json:"misnumbered"`     // frames whose number the ones around them refute; their own number is lost
	Earlier         uint64          `json:"earlier"`         // of Unique: before the last restart
	Delay           *hist.Histogram `json:"delay_ns"`        // one-way delay, RFC 7679, less DelayBase
	DelayBase       int64           `json:"delay_base_ns"`   // 0 with one clock; with two the smallest difference between stamp and arrival, which may be negative
	DelayBlur       uint64          `json:"delay_blur_ns"`   // with two clocks: percentiles are known to so many ns, where that is more than a bucket's 1/32
	DelaySum        uint64          `json:"delay_sum_ns"`
	DelayMin        uint64          `json:"delay_min_ns"`
	DelayMax        uint64          `json:"delay_max_ns"`
	DelayLatest     uint64          `json:"delay_latest_ns"`
	NegativeDelays  uint64          `json:"negative_delays"` // arrived before they were sent, by the two clocks; with one clock their delay counts as 0
	Variation       *hist.Histogram `json:"variation_ns"`    // |IPDV| between consecutive frames in arrival order, RFC 3393 section 4.5
	VariationMax    uint64          `json:"variation_max_ns"`
	First           time.Duration   `json:"first_ns"` // arrival times on CLOCK_MONOTONIC of the receiver
	Last            time.Duration   `json:"last_ns"`
	HighestSequence uint64          `json:"highest_sequence"`
	LastError       *SequenceError  `json:"last_error,omitempty"`
	LastCorrupt     *Corruption     `json:"last_corrupt,omitempty"`
}

// SequenceError is the context of the last frame that was not the expected one.
type SequenceError struct {
	Expected uint64        `json:"expected"`
	Got      uint64        `json:"got"`
	At       time.Duration `json:"at_ns"` // CLOCK_MONOTONIC of the receiver
}

// Corruption is the context of the last payload error. Sequence is what the frame said, which may
// itself be wrong.
type Corruption struct {
	Sequence uint64        `json:"sequence"`
	At       time.Duration `json:"at_ns"` // CLOCK_MONOTONIC of the receiver
}

// CapturedFrame is a frame in error, or one that arrived shortly before or after it.
type CapturedFrame struct {
	At       time.Duration // CLOCK_MONOTONIC of the receiver
	Stream   uint16
	Sequence uint64
	Reason   string // "gap", "reordered", "duplicate", "out of window", "payload", "header", "restart", "misnumbered"; "context" for its neighbours
	Length   int    // octets of the whole frame, without FCS
	Data     []byte // its first octets
}

// Analysis is an analyzer's account.
type Analysis struct {
	Streams      []Counts `json:"streams"`
	Foreign      uint64   `json:"foreign"` // frames without a stamp
	ForeignBytes uint64   `json:"foreign_bytes"`
	Unknown      uint64   `json:"unknown"`    // stamped, of a stream that was not announced
	Uncaptured   uint64   `json:"uncaptured"` // frames that the capture had no room for
}
