// SPDX-License-Identifier: Apache-2.0

// Package link carries frames between two hosts of a lab like a real path: at a rate, with a delay,
// and with losses.
//
// A cable's two ends are veth devices inside the lab's carrier namespace; a [Carrier] moves every
// frame from one end to the other. Three mechanisms exist: departure times in fq, netem, and the
// AF_XDP emulator. One conformance suite holds them to the same semantics:
//
//   - Impairments apply to single frames of at most MTU size, never to GSO super-packets (see
//     README.md).
//   - The rate counts bytes on the wire: the frame, plus [FrameOverhead] for preamble, inter-frame
//     gap and FCS.
//   - Loss follows the bottleneck queue: a lost frame has used the link's time, and its sender gets
//     no notice.
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

// FrameOverhead is the size of a frame on an Ethernet wire beyond its own bytes: preamble and start
// delimiter 8, FCS 4, inter-frame gap 12 (IEEE 802.3).
const FrameOverhead = 24

// JitterShape names how the delay varies around its mean.
type JitterShape string

const (
	Uniform JitterShape = "uniform" // over ±Jitter
	Normal  JitterShape = "normal"  // standard deviation Jitter
	Pareto  JitterShape = "pareto"  // heavy tail, standard deviation Jitter
)

// Queue is the bottleneck's queue. Zero means no limit of that kind; frames beyond a limit are
// dropped at the tail.
type Queue struct {
	Bytes   units.ByteSize // bytes of queued frames, without overhead
	Packets int
	// ECN marks ECN-capable frames (RFC 3168) if more bytes than this are queued; 0 marks none.
	ECN units.ByteSize
	// Discipline manages the queue, with Target and Interval (0: its defaults). With Mark it marks
	// ECN-capable frames instead of dropping them.
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
	// Corrupt inverts one bit after the Ethernet header, with this probability per frame.
	Corrupt float64
	Queue   Queue
	// Schedule, if not empty, replaces Rate, Delay and Loss after Carrying.Begin. It repeats.
	Schedule []Step
	Seed     uint64 // of this direction's random choices
}

// Cable is one emulated link. A and B name its two veth ends inside the carrier namespace; Forward
// is A to B.
type Cable struct {
	Name    string
	A, B    string
	Forward Direction
	Reverse Direction
}

// Counters are one direction's totals since the carrier started, and the lateness of its frames.
type Counters struct {
	Received uint64 // frames that arrived from the sender
	// ReceivedBytes counts their bytes; 0 if the mechanism does not count them.
	ReceivedBytes uint64
	Sent          uint64
	SentBytes     uint64 // frame bytes without overhead
	QueueDrops    uint64
	LossDrops     uint64
	Marked        uint64
	Duplicated    uint64
	Reordered     uint64
	Corrupted     uint64
	Overruns      uint64 // frames lost by the mechanism itself: any makes a run invalid
	Uncaptured    uint64 // frames missing in the packet trace
	Held          uint64 // frames in the link now
	MaxBacklog    uint64 // bytes, since the last Begin
	// Lateness is the time from the due departure to sending, in ns; nil if the mechanism does not
	// measure it.
	Lateness *hist.Histogram
	// Stalls are the times, in ns, of at least BehindAfter in which a frame that had arrived was
	// not received, or a due frame was not sent; overlapping ones are merged. They show a stalled
	// mechanism even if few frames arrived meanwhile. Nil if the mechanism does not measure it.
	Stalls *hist.Histogram
}

// BehindAfter is the minimum length of Counters.Stalls.
const BehindAfter = time.Millisecond

// Status is one cable's counters.
type Status struct {
	Cable            string
	Forward, Reverse Counters
}

// Capturing is a running carrier that writes packet traces.
type Capturing interface {
	// Capture writes each cable's frames to a file named after it in folder, until Close: at most
	// octets bytes of each frame, with the frame's fate as a comment (pcapng).
	Capture(folder string, octets int) error
}

// Gauging is a running carrier that records queue lengths over time.
type Gauging interface {
	// Depths returns, for every cable and both directions, the maximum number of bytes in the queue
	// in each DepthInterval since the last Begin.
	Depths() ([][2][]uint32, error)
}

// DepthInterval is the width of the samples of a queue's length.
const DepthInterval = 100 * time.Millisecond

// DirectionName names one direction of a link: "path forward", "path reverse".
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
	// Mechanism returns the name in reports and manifests: "netem", "AF_XDP emulator".
	Mechanism() string
	// Check returns the reason that the carrier cannot support a cable, or nil.
	Check(Cable) error
	// Carry attaches to the cables' devices, which exist and are up in ns, and returns once frames
	// are moved.
	Carry(ctx context.Context, ns *netns.Namespace, cables []Cable) (Carrying, error)
}

// Carrying is an active carrier.
type Carrying interface {
	// Mechanism returns the carrier's name.
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
