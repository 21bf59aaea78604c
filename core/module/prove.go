// SPDX-License-Identifier: Apache-2.0

package module

import (
	"time"

	"weir/core/policy"
	"weir/internal/direction"
	"weir/internal/units"
)

// Prover is a Room whose promises weir prove tests actively.
type Prover interface {
	// Checks lists what is to be tested of a scope that the room treats. Bypasses are tried with
	// the first one that is charged.
	Checks(policy.Scope) []Check
}

// Check is one promise of one scope: what is sent to test it, and what must come of it. The spine
// chooses where the flow begins and ends, repeats it on every path, and finds out what the path
// carries outside of all scopes. Everything but Name and Judge may be left out.
type Check struct {
	Name      string // of the verdict: "rate"
	Part      string // of the scope's rows whose counters are read, as in Row.Part
	Direction direction.Direction
	// Promise is the rate that is promised, of wire octets; 0 where it is not of a rate. Words are
	// what else is promised, as "dctcp" or a tolerance.
	Promise units.BitRate
	Words   string
	// Needs is what a path must carry outside of all scopes before anything can be told; 0 does not
	// ask.
	Needs units.BitRate
	// Paths says whether a path is to be tested; nil is all of TCP and UDP.
	Paths func(Path) bool
	// Queued says that the promise is kept in the queue of the device, which a detour leaves out:
	// it takes a peer behind the device.
	Queued bool
	// Flow is what is sent on a path; nil is one connection, or datagrams, at 1 Mbit/s.
	Flow func(Path) Flow
	// Warmup is how long the flow runs before it is measured, Shortest the least time of a
	// measurement that tells.
	Warmup, Shortest time.Duration
	// Probed says that small packets are sent beside what TCP sends, which are a hundredth of the
	// promise at most: what is lost of them, and how long they take.
	Probed  bool
	Charged Charge
	// Counters name the columns that are shown beside what was measured, which must be counters.
	Counters []string
	// Value is what counts of a repetition, in bit/s; nil is what was received.
	Value func(Sample) float64
	// Judge compares what was measured with the promise. There is at least one sample.
	Judge func([]Sample, Circumstances) (Verdict, string)
}

// Charge names the counters of what a scope is charged for, by columns of the room's rows. The zero
// value is nothing: then no bypass can be tried.
type Charge struct {
	Octets string // of packets as the wire carries them
	// Packets are as the stack hands them over, Segments as the wire carries them; "" leaves
	// super-packets out.
	Packets, Segments string
	// Dropped are packets that the room drops at a receiving socket, which counts them among what
	// it had no room for; "" if none.
	Dropped string
	// AtDevice says that all that passes the device is charged, whatever sent it.
	AtDevice bool
	// Exempt says why traffic over lo is not charged, and what would change that; "" where it is.
	Exempt string
}

// Promised is the promise in words; "" where there is none.
func (c Check) Promised() string {
	switch {
	case c.Promise == 0:
		return c.Words
	case c.Words == "":
		return c.Promise.String()
	}
	return c.Promise.String() + ", " + c.Words
}

// Path is how a flow of a check goes.
type Path struct {
	Protocol string `json:"protocol"` // tcp, udp, quic or short
	IPv6     bool   `json:"ipv6"`
}

const (
	TCP = "tcp"
	UDP = "udp"
	// QUIC is datagrams under a control like QUIC's, which are lost where nobody delays them, Short
	// TCP transfers with a connection each. Both go by one family and are repeated twice at most:
	// they are judged by their mean.
	QUIC  = "quic"
	Short = "short"
)

// Lasting says whether a flow of the path is one of TCP or UDP that lasts.
func (p Path) Lasting() bool { return p.Protocol == TCP || p.Protocol == UDP }

func (p Path) String() string {
	name := map[string]string{TCP: "TCP", UDP: "UDP", QUIC: "QUIC-like", Short: "short TCP"}[p.Protocol]
	if p.IPv6 {
		return name + " IPv6"
	}
	return name + " IPv4"
}

// Flow is what is sent.
type Flow struct {
	Connections int           // of TCP; 0 is one
	Rate        units.BitRate // of wire octets; 0 is as fast as it goes, which UDP cannot
	Size        int           // octets of a short transfer
	// KeepCongestion leaves the congestion control that the scope gives; otherwise one that fits
	// the path is chosen.
	KeepCongestion bool
}

// Sample is one repetition of a check.
type Sample struct {
	Repetition int     `json:"repetition"`
	Received   float64 `json:"received"` // bit/s of wire octets, at the receiver
	// Charged is in bit/s, by the scope's counters; Quotient is what the scope was charged for the
	// whole flow, from before its beginning to after its end, divided by what arrived. Both are 0
	// where the check names no such counter.
	Charged  float64 `json:"charged,omitempty"`
	Quotient float64 `json:"charged_times,omitempty"`
	// Counters are what the counters of the room's row grew by while it was measured.
	Counters   map[string]uint64 `json:"counters,omitempty"`
	Congestion string            `json:"congestion_control,omitempty"` // of the sending socket at its end, of TCP alone
	// DSCPs counts what came to the far end by its DSCP: datagrams, or TCP connections by the last
	// packet of their handshake.
	DSCPs map[uint8]uint64 `json:"dscps,omitempty"`
	Busy  float64          `json:"busy"`     // share of this host's processor time that was used
	Delay time.Duration    `json:"delay_ns"` // beyond the idle round trip, of TCP alone
	Drops uint64           `json:"drops"`    // datagrams that arrived and found the receiver's buffer full
	// Left is the payload that the sender's kernel has sent while it was measured, in octets, and
	// Again what of it was sent again; of QUIC-like flows what was sent in all, and did not arrive.
	Left   uint64 `json:"sent,omitempty"`
	Again  uint64 `json:"sent_again,omitempty"`
	Probes Probes `json:"small_packets,omitzero"`
	// Transfers are the times of short ones, from the handshake to the end.
	Transfers []time.Duration `json:"transfers_ns,omitempty"`
}

// Circumstances are what may explain a rate that is too low.
type Circumstances struct {
	Path     Path
	Capacity units.BitRate  // of the path outside of all scopes; 0 is unknown
	Unknown  string         // why it is unknown; "" if it is not
	Losses   Losses         // of the path outside of all scopes, where Unknown is ""
	Around   []policy.Scope // other scopes that the room treats and that the flow belongs to as well, in the policy's order
}

// Verdict is what became of a promise.
type Verdict string

const (
	Holds     Verdict = "holds"
	Under     Verdict = "under" // the scope gets less than it may have
	Leaks     Verdict = "leaks" // it gets more, or traffic of it was not charged
	Loses     Verdict = "loses" // it is held by dropping more than users bear
	Fails     Verdict = "fails" // what was promised is not done
	CannotSay Verdict = "cannot say"
	InShadow  Verdict = "shadow" // only counted
)

// Trier is a Prover that tries bypasses with a data plane of its own, apart from the policy in
// force.
type Trier interface {
	Trials() []Trial
}

// Trial is one such bypass, of egress. The spine opens a connection from a cgroup of its own,
// attaches the trial to that cgroup, in the network namespace of the connection, and only then
// sends.
type Trial struct {
	Name      string // "sockets open at the attach"
	Mechanism string // in words, as the beginning of a sentence that says whether it is charged
	Rate      units.BitRate
	Attach    func(cgroup string) (Attached, error)
}

// Attached is a trial under way.
type Attached struct {
	Note    string                 // the end of the sentence; may be ""
	Charged func() (uint64, error) // octets so far
	Close   func() error
}
