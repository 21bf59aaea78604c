// SPDX-License-Identifier: Apache-2.0

// Package link carries frames between two hosts of a lab the way a real path would: at a rate,
// late, and not all of them.
//
// A cable's two ends are veth devices inside the lab's carrier namespace; a [Carrier] moves every
// frame from one end to the other. Two mechanisms do it, netem where the kernel has it and the
// AF_XDP emulator elsewhere, and one conformance suite holds both to the same semantics:
//
//   - Impairments hit single frames of at most MTU size, never GSO super-packets (notes in
//     README.md say how).
//   - The rate counts wire octets: the frame, plus [FrameOverhead] for preamble, inter-frame gap
//     and FCS.
//   - Loss happens behind the bottleneck queue: a lost frame has used the link's time, and its
//     sender is told nothing.
package link

import (
	"context"
	"errors"
	"time"

	"weir/internal/units"
	"weir/kernel/netns"
	"weir/lab/link/loss"
	"weir/record/hist"
)

// FrameOverhead is the size of a frame on an Ethernet wire beyond its own octets: preamble and
// start delimiter 8, FCS 4, inter-frame gap 12 (IEEE 802.3).
const FrameOverhead = 24

// JitterShape names how the delay varies around its mean.
type JitterShape string

const (
	Uniform JitterShape = "uniform" // over ±Jitter
	Normal  JitterShape = "normal"  // standard deviation Jitter
	Pareto  JitterShape = "pareto"  // heavy tail, standard deviation Jitter
)

// Queue is the bottleneck's queue. A limit of zero is no limit of that kind; frames beyond a limit
// are dropped at the tail.
type Queue struct {
	Bytes   units.ByteSize // bytes of queued frames, without overhead
	Packets int
	// ECN marks ECN-capable frames (RFC 3168) if more bytes than this are queued; 0 marks none.
	ECN units.ByteSize
	// Discipline manages the queue, at Target and Interval (0: its own). Mark has it mark frames
	// that are ECN-capable in the place of dropping them.
	Discipline       Discipline
	Target, Interval time.Duration
	Mark             bool
}

// Direction holds the properties of one direction of a link. The zero value passes frames
// unchanged.
type Direction struct {
	Rate      units.BitRate // on the wire, FrameOverhead included; 0 does not limit
	Delay     time.Duration
	Jitter    time.Duration
	Shape     JitterShape // "" is Uniform
	KeepOrder bool        // jitter never lets a frame overtake another
	Loss      loss.Loss
	// Reorder sends a frame at once instead of delaying it, with this probability.
	Reorder   float64
	Duplicate float64
	// Corrupt inverts one bit behind the Ethernet header, with this probability per frame.
	Corrupt float64
	Queue   Queue
	// Schedule, if there is one, takes the place of Rate, Delay and Loss once Carrying.Begin is
	// called. It repeats.
	Schedule []Step
	Seed     uint64 // of this direction's random choices
}

// Cable is one link to be carried. A and B name its two veth ends inside the carrier namespace;
// Forward is A to B.
type Cable struct {
	Name    string
	A, B    string
	Forward Direction
	Reverse Direction
}

// Counters are one direction's totals since the carrier started, and how late its frames were sent.
type Counters struct {
	Received uint64 // frames that arrived from the sender
	// ReceivedBytes counts their bytes; 0 if the mechanism does not.
	ReceivedBytes uint64
	Sent          uint64
	SentBytes     uint64 // frame bytes without overhead
	QueueDrops    uint64
	LossDrops     uint64
	Marked        uint64
	Duplicated    uint64
	Reordered     uint64
	Corrupted     uint64
	Overruns      uint64 // frames the mechanism itself lost: any makes a run invalid
	Uncaptured    uint64 // frames that are missing in the packet trace
	Held          uint64 // frames in the link now
	MaxBacklog    uint64 // bytes, since the last Begin
	// Lateness is the delay of sending behind the due time, in ns; nil if the mechanism does not
	// measure it.
	Lateness *hist.Histogram
	// Stalls are the spans of time, in ns, in which a frame that had arrived was not taken, or one
	// that was due was not sent, for BehindAfter and more; spans that overlap are one. They tell
	// how long the mechanism stood still, however few frames came meanwhile. Nil where the
	// mechanism cannot tell.
	Stalls *hist.Histogram
}

// BehindAfter is the minimum span of Counters.Stalls.
const BehindAfter = time.Millisecond

// Status is one cable's counters.
type Status struct {
	Cable            string
	Forward, Reverse Counters
}

// Capturing is a running carrier that writes packet traces.
type Capturing interface {
	// Capture begins to write what becomes of each cable's frames to a file named after it in
	// folder, until Close: at most octets of each frame, and what the link did to it as a comment
	// (pcapng).
	Capture(folder string, octets int) error
}

// Gauging is a running carrier that records queue lengths over time.
type Gauging interface {
	// Depths returns, for every cable and both directions, the most octets that waited in the queue
	// in each DepthInterval since the last Begin.
	Depths() ([][2][]uint32, error)
}

// DepthInterval is the width of the samples of a queue's length.
const DepthInterval = 100 * time.Millisecond

// DirectionName is how one direction of a link is called: "path forward", "path reverse".
func DirectionName(link string, reverse bool) string {
	if reverse {
		return link + " reverse"
	}
	return link + " forward"
}

// ErrBroken is returned if a running carrier has ended by itself.
var ErrBroken = errors.New("the links' carrier has ended")

// Carrier is a mechanism that moves frames between cables' ends.
type Carrier interface {
	// Mechanism names it for people and manifests: "netem", "AF_XDP emulator".
	Mechanism() string
	// Check returns why the carrier cannot support a cable, or nil.
	Check(Cable) error
	// Carry attaches to the cables' devices, which exist and are up in ns, and returns once frames
	// are moved.
	Carry(ctx context.Context, ns *netns.Namespace, cables []Cable) (Carrying, error)
}

// Carrying is a carrier at work.
type Carrying interface {
	// Mechanism is the carrier's.
	Mechanism() string
	// Status returns every cable's counters, in the order they were given.
	Status() ([]Status, error)
	// Begin resets maxima such as the backlog, and restarts schedules.
	Begin() error
	// CPU returns the CPU time of the mechanism; zero if the kernel does the work.
	CPU() time.Duration
	// Close stops moving frames and detaches everything from the devices.
	Close() error
}
