// SPDX-License-Identifier: Apache-2.0

// Package tester defines the types of the frame tester: streams, schedules, counters. Its
// subpackages: frame builds frames, generator and packet send them, analyzer classifies them in
// BPF, rfc2544 searches with them.
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
	// StampSize is the size of a stamp at the end of the payload.
	StampSize = 18
	// MaxStreams is the number of streams that run at once.
	MaxStreams = 4096
	// FCSSize is part of frame sizes; software never sees the FCS.
	FCSSize = 4
	// WireOverhead is preamble, start delimiter and the minimum inter-frame gap, which a frame
	// occupies on the wire beyond its FrameSize octets.
	WireOverhead = 20
)

// Action is the change of a modifier's field from frame to frame.
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

// Header is the header fields of a stream's frames.
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
	Frames    uint64        // end the stream after this number; 0 runs to the schedule's end
}

// SizeShare is one frame size of a mix and its weight.
type SizeShare struct {
	Size   int // octets, FCS included: 64-9000, 68 at least with a VLAN tag
	Weight int
}

// Policy is a generator's treatment of frames that it could not send in time.
type Policy string

const (
	Skip    Policy = "skip"     // skip late frames; the missed rate is reported, gaps stay right
	CatchUp Policy = "catch-up" // send late frames back to back; the count stays right
	Space   Policy = "space"    // shift all later frames: no two frames are closer than 7/8 of the gap, and the rate is missed
)

// Schedule is the input of one generator.
type Schedule struct {
	Streams    []Stream
	Sequential bool          // one stream after another in ID order, as in the IETF model; each needs Frames
	Duration   time.Duration // enforced by the sending program itself, even if its controller is dead
	MaxFrames  uint64        // limit over all streams; 0 is none
	Policy     Policy
	Tolerance  time.Duration // Skip: frames late by less are still sent; a frame late by a gap or more is always skipped
	Batch      int           // frames sent together unless a gap requires otherwise; 1 for latency, 0 lets the mechanism choose
	// Coalesce is the maximum wait of a paced frame for later ones, to leave together with them:
	// one doorbell for all of them, like interrupt coalescing of a network card. It applies if
	// Batch is 0 and the mechanism is live frames; 0 sends each frame when it is due.
	Coalesce time.Duration
}

// Sent counts the frames that a generator has sent, per stream.
type Sent struct {
	Stream       uint16        `json:"stream"`
	Frames       uint64        `json:"frames"`
	WireBytes    uint64        `json:"wire_bytes"`    // with FCS, preamble and gap
	PayloadBytes uint64        `json:"payload_bytes"` // UDP payload
	Late         uint64        `json:"late"`          // frames sent more than Generation.LateAfter after their due time
	Skipped      uint64        `json:"skipped"`       // due and not sent (Skip)
	First        time.Duration `json:"first_ns"`      // send times on CLOCK_MONOTONIC of the sender, ns in JSON; zero without frames
	Last         time.Duration `json:"last_ns"`
}

// Generation is a generator's account of a finished or running schedule.
type Generation struct {
	Mechanism string          `json:"mechanism"` // "XDP live frames", "AF_XDP"
	Sent      []Sent          `json:"sent"`
	Refused   uint64          `json:"refused"` // frames of Sent that the device did not accept: its ring was full or its peer not ready
	LateAfter time.Duration   `json:"late_after_ns"`
	Lateness  *hist.Histogram `json:"lateness_ns"` // ns between due and sent, of all paced frames
	Ended     string          `json:"ended"`       // "schedule", "frame limit", "deadline", "stopped", or an error's text
}

// Counts is the analyzer's exact account of one stream. All delays are in ns.
type Counts struct {
	Stream          uint16          `json:"stream"`
	Received        uint64          `json:"received"` // stamped frames of the stream, duplicates included
	WireBytes       uint64          `json:"wire_bytes"`
	PayloadBytes    uint64          `json:"payload_bytes"`
	Unique          uint64          `json:"unique"`
	Lost            uint64          `json:"lost"`            // RFC 7680: numbers below the highest seen that never arrived in time, see OutOfWindow
	Duplicates      uint64          `json:"duplicates"`      // RFC 5560
	Reordered       uint64          `json:"reordered"`       // RFC 4737 section 3: sequence number below the next expected one
	MaxExtent       uint64          `json:"max_extent"`      // RFC 4737 section 4.2.1: the largest reordering extent, in frames
	SequenceErrors  uint64          `json:"sequence_errors"` // frames that were not the next expected one
	PayloadErrors   uint64          `json:"payload_errors"`  // wrong UDP checksum: counted in Received, their sequence number as lost
	HeaderErrors    uint64          `json:"header_errors"`   // wrong IPv4 header checksum: like PayloadErrors
	OutOfWindow     uint64          `json:"out_of_window"`   // too old to distinguish a duplicate from a late frame: in Received alone, and among the lost
	Restarts        uint64          `json:"restarts"`        // numbers went back while stamps went on: the sender restarted, or there are two
	Misnumbered     uint64          `json:"misnumbered"`     // frames with a number that the surrounding ones refute; their own number is lost
	Earlier         uint64          `json:"earlier"`         // of Unique: before the last restart
	Delay           *hist.Histogram `json:"delay_ns"`        // one-way delay, RFC 7679, less DelayBase
	DelayBase       int64           `json:"delay_base_ns"`   // 0 with one clock; with two the smallest difference between stamp and arrival, maybe negative
	DelayBlur       uint64          `json:"delay_blur_ns"`   // with two clocks: resolution of the percentiles in ns, if coarser than a bucket's 1/32
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

// Corruption is the context of the last payload error. Sequence is the frame's number, which may
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
	Uncaptured   uint64   `json:"uncaptured"` // frames that did not fit the capture
}
