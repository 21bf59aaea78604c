// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"time"

	"weir/kernel/netns"
	"weir/tester"
)

// Port is a device that the tester may use. Namespace nil is the caller's own; an empty Device is a
// port elsewhere.
type Port struct {
	Name      string // as the specification calls it; empty is the device's name
	Namespace *netns.Namespace
	Device    string
	// Peer is the other end of a veth pair, where it is at hand: a generator that needs it makes
	// the peer receive for the time of the run. A peer that is a receiving port of the same run
	// needs no mention.
	Peer *Port
	CPUs []int // processors for the generator on this port; none leaves it to the scheduler
}

// Here says whether the port is on this machine.
func (p Port) Here() bool { return p.Device != "" }

// String is the port as messages name it: "left:tg0", "tg0".
func (p Port) String() string {
	switch {
	case !p.Here():
		return p.Name
	case p.Namespace != nil && p.Namespace.Name != "":
		return p.Namespace.Name + ":" + p.Device
	}
	return p.Device
}

// Direction is what one generator sends from one port to another. A port that is not here is left
// to another process: without From nothing is sent, and Schedule only announces the streams;
// without To nothing is received.
//
// Header addresses that are missing are filled in: the source MAC is the sending device's own, the
// destination MAC that of the next hop towards Header.Destination.
type Direction struct {
	From, To Port
	Schedule tester.Schedule
}

// Clock says how the sender's and the receiver's clocks relate, and so what a delay means.
type Clock string

const (
	// OneWay is one clock for both ends, or two that the user declares synchronised: delays are
	// one-way delays.
	OneWay Clock = "one-way"
	// Relative is two clocks with an unknown offset: only differences to the smallest delay are
	// meaningful.
	Relative Clock = "relative"
)

// Config is one run.
type Config struct {
	Name         string
	Directions   []Direction   // stream identifiers are unique over all of them
	Clock        Clock         // empty: OneWay where both ends are here, Relative otherwise
	IKnow        bool          // a default route's device may be used
	Straggle     time.Duration // frames are waited for until none has arrived for so long; 0 is DefaultStraggle
	Listen       time.Duration // without any sender: how long to receive; 0 is until the context ends
	Capture      int           // frames to keep around errors, per receiving port; 0 is none
	Ready        func()        // called when frames can arrive; may be nil
	Progress     func(Account) // called once a second while the run lasts, never concurrently; may be nil
	Observe      func(Account) // called every ObserveEvery, like Progress; may be nil
	ObserveEvery time.Duration
	Engine       Engine // nil is the machine's own: generator and analyzer
}

const (
	// DefaultStraggle is how long a run waits for late frames while none arrives. It ends earlier
	// when every frame has arrived.
	DefaultStraggle = 500 * time.Millisecond
	// longestStraggle bounds the wait for a device that goes on sending.
	longestStraggle = 10 * time.Second
)

// Sender is a running generator.
type Sender interface {
	// Progress is what has been sent so far.
	Progress() tester.Generation
	// Wait returns when the schedule has ended.
	Wait() (tester.Generation, error)
	// Stop ends the schedule early.
	Stop()
}

// Receiver is an attached analyzer.
type Receiver interface {
	Snapshot() (tester.Analysis, error)
	// Captured are the frames kept around errors since the last call, in order of arrival.
	Captured() ([]tester.CapturedFrame, error)
	// Close detaches the analyzer; nothing is left behind.
	Close() error
}

// Reception says what an analyzer is to expect.
type Reception struct {
	Streams []uint16 // announced identifiers
	Capture bool     // keep frames around errors
	// Relative: some sender is elsewhere and has another clock, so delays count from a stream's
	// smallest one.
	Relative bool
}

// Engine opens the two ends of a test. The machine's own uses BPF; tests use a simulated one.
type Engine interface {
	Send(ctx context.Context, from Port, schedule tester.Schedule) (Sender, error)
	Receive(to Port, expect Reception) (Receiver, error)
}
