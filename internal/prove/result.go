package prove

import (
	"time"

	"weir/internal/units"
	"weir/limit"
	"weir/policy"
	"weir/record/stats"
)

// Format names the JSON document that a [Result] is written as; docs/formats/prove.md describes it.
const Format = "weir-prove/1"

// Verdict is what became of a promise.
type Verdict string

const (
	Holds     Verdict = "holds"      // the 95 % interval of the mean lies within the tolerance
	Under     Verdict = "under"      // it lies below: the scope gets less than it may have
	Leaks     Verdict = "leaks"      // it lies above, or traffic of the scope was not charged
	CannotSay Verdict = "cannot say" // with a reason
	Shadow    Verdict = "shadow"     // the scope only counts: it promises nothing
	Members   Verdict = "members"    // a group, which has no traffic but its members'; they are proved one by one
)

// State says whether a way around a scope is closed.
type State string

const (
	Covered       State = "covered"
	Escapes       State = "escapes"    // traffic goes around the limit
	CanEscape     State = "can escape" // a way around exists; nothing was seen to take it
	NotApplicable State = "not applicable"
	Unknown       State = "cannot say"
)

// Path is how a flow of a test goes.
type Path struct {
	Protocol string `json:"protocol"` // tcp or udp
	IPv6     bool   `json:"ipv6"`
}

func (p Path) String() string {
	name := map[string]string{"tcp": "TCP", "udp": "UDP"}[p.Protocol]
	if p.IPv6 {
		return name + " IPv6"
	}
	return name + " IPv4"
}

// Rate is one scope, direction and path: what was promised and what was measured.
type Rate struct {
	Scope     string          `json:"scope"`
	Applies   policy.Selector `json:"applies"`
	Direction string          `json:"direction"`
	Path      Path            `json:"path"`
	Promised  units.BitRate   `json:"promised"` // bit/s of wire octets: IP packets and 14 octets each
	// Measured is the mean over repetitions, in bit/s, and Share its part of what is promised.
	Measured stats.Estimate `json:"measured"`
	Share    float64        `json:"share"`
	Samples  []Sample       `json:"samples"`
	// Capacity is what the path carried from outside of all scopes, in bit/s; 0 where that cannot be measured.
	Capacity units.BitRate `json:"capacity,omitempty"`
	// ExtraDelay is the smoothed round-trip time under load less the shortest, in seconds; of TCP alone.
	ExtraDelay *stats.Estimate `json:"extra_delay,omitempty"`
	Marked     uint64          `json:"marked"`
	Reduced    uint64          `json:"reduced"`
	Refused    uint64          `json:"refused"`
	Verdict    Verdict         `json:"verdict"`
	Reason     string          `json:"reason,omitempty"`
}

// Sample is one repetition.
type Sample struct {
	Repetition int     `json:"repetition"`
	Received   float64 `json:"received"` // bit/s of wire octets, at the receiver
	Charged    float64 `json:"charged"`  // bit/s, by the scope's counters
	// Quotient is what the scope was charged for the whole flow, from before its beginning to after its end, divided by what
	// arrived. The window of the two rates is not quite the same: each end reads its own counters.
	Quotient float64        `json:"charged_times"`
	Busy     float64        `json:"busy"`     // share of this host's processor time that was used
	Delay    time.Duration  `json:"delay_ns"` // extra delay
	Drops    uint64         `json:"drops"`    // datagrams that arrived and that the receiver's buffer had no room for
	Counters limit.Counters `json:"-"`
}

// value is what counts: what arrived, or what the scope was charged if it clearly had other traffic too.
func (s Sample) value() float64 {
	if s.Quotient > 1+foreign {
		return s.Charged
	}
	return s.Received
}

// Escape is one way around one scope.
type Escape struct {
	Scope string `json:"scope"`
	Check string `json:"check"`
	State State  `json:"state"`
	Why   string `json:"why"` // one sentence: the mechanism, and what was seen
	// Charged is how often each octet that passed was charged; absent where nothing was sent.
	Charged *float64 `json:"charged,omitempty"`
}

// Result is everything that was found.
type Result struct {
	Format   string    `json:"format"`
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished"`
	Peer     string    `json:"peer"`
	// Congestion is the congestion control of TCP flows; "" is the host's default.
	Congestion string   `json:"congestion_control,omitempty"`
	Seed       uint64   `json:"seed"`
	Rates      []Rate   `json:"rates"`
	Escapes    []Escape `json:"escapes"`
	Stopped    bool     `json:"stopped,omitempty"`
}

// Failed says that a promise is broken or traffic escapes, Open that something could not be told.
func (r *Result) Failed() bool {
	for _, rate := range r.Rates {
		if rate.Verdict == Under || rate.Verdict == Leaks {
			return true
		}
	}
	for _, e := range r.Escapes {
		if e.State == Escapes {
			return true
		}
	}
	return false
}

// Open returns the first thing that could not be told, and why; "" where all could.
func (r *Result) Open() string {
	for _, rate := range r.Rates {
		if rate.Verdict == CannotSay {
			return rate.Scope + ", " + rate.Direction + ", " + rate.Path.String() + ": " + rate.Reason
		}
	}
	for _, e := range r.Escapes {
		if e.State == Unknown {
			return e.Scope + ", " + e.Check + ": " + e.Why
		}
	}
	return ""
}
