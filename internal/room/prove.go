package room

import (
	"time"

	"weir/internal/direction"
	"weir/internal/units"
)

// Prover is a Room whose promises weir prove tests actively.
type Prover interface {
	// Checks lists what is to be tested of one scope in force. All are the scopes that the room treats.
	Checks(b Bound, all []Bound) []Check
}

// Check is one promise of one scope: what is sent to test it, and what must come of it. The spine chooses where the flow begins
// and ends, repeats it on every path, and finds out what the path carries without the treatment.
type Check struct {
	Name      string // of the verdict: "rate"
	Part      string // of the scope's rows, as in Row.Part
	Direction direction.Direction
	// Promise is the rate that is promised, of wire octets; 0 where it is not of a rate. A path that does not carry it without
	// the treatment proves nothing.
	Promise units.BitRate
	// Paths says whether a path is to be tested; nil is all.
	Paths func(Path) bool
	// Flow is what is sent on a path, Warmup how long before it is measured, Shortest the least time of a measurement that tells.
	Flow             func(Path) Flow
	Warmup, Shortest time.Duration
	// Charged names the counter of the octets that the scope is charged; "" where nothing is charged and no bypass can be tried.
	Charged string
	// Counters name the columns that are shown beside what was measured.
	Counters []string
	// Judge compares what was measured with the promise.
	Judge func([]Sample, Circumstances) (Verdict, string)
}

// Path is how a flow of a check goes.
type Path struct {
	Protocol string `json:"protocol"` // tcp or udp
	IPv6     bool   `json:"ipv6"`
}

// Flow is what is sent.
type Flow struct {
	Connections int           // of TCP
	Rate        units.BitRate // 0 is as fast as it goes
}

// Sample is one repetition of a check.
type Sample struct {
	Received   float64           // bit/s of wire octets, at the receiver
	Quotient   float64           // what the scope was charged for the whole flow, divided by what arrived
	Counters   map[string]uint64 // what the room's counters grew by while it was measured
	Congestion string            // congestion control of the sending socket, of TCP alone
	Busy       float64           // share of this host's processor time that was used
	Delay      time.Duration     // beyond the idle round trip
}

// Circumstances are what may explain a rate that is too low.
type Circumstances struct {
	Capacity units.BitRate // of the path without the treatment; 0 is unknown
	Unknown  string        // why it is unknown; "" if it is not
	Tighter  string        // another scope that allows less; "" for none
}

// Verdict is what became of a promise.
type Verdict string

const (
	Holds     Verdict = "holds"
	Under     Verdict = "under" // the scope gets less than it may have
	Leaks     Verdict = "leaks" // it gets more, or traffic of it was not charged
	Fails     Verdict = "fails" // what was promised is not done
	CannotSay Verdict = "cannot say"
)
