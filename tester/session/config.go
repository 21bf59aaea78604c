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
	Name      string // name in the specification; empty is the device's name
	Namespace *netns.Namespace
	Device    string
	// Peer is the other end of a veth pair, if known: a generator that needs it makes the peer
	// receive during the run. A peer that is a receiving port of the same run is omitted.
	Peer *Port
	CPUs []int // for the generator on this port; none leaves the choice to the scheduler
}

// Here reports whether the port is on this machine.
func (p Port) Here() bool { return p.Device != "" }

// String returns the port as in messages: "left:tg0", "tg0".
func (p Port) String() string {
	switch {
	case !p.Here():
		return p.Name
	case p.Namespace != nil && p.Namespace.Name != "":
		return p.Namespace.Name + ":" + p.Device
	}
	return p.Device
}

// Direction is the schedule of one generator from one port to another. A port elsewhere belongs to
// another process: without From nothing is sent, and Schedule only announces the streams; without
// To nothing is received.
//
// Missing header addresses are filled in: the source MAC is the sending device's own, the
// destination MAC that of the next hop towards Header.Destination.
type Direction struct {
	From, To Port
	Schedule tester.Schedule
}

// Clock is the relation of the sender's and the receiver's clocks, which defines the meaning of a
// delay.
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
	Clock        Clock         // empty: OneWay if both ends are here, Relative otherwise
	IKnow        bool          // a default route's device may be used
	Straggle     time.Duration // wait for late frames, from the last arrival; 0 is DefaultStraggle
	Listen       time.Duration // without any sender: time to receive; 0 is until the context ends
	Capture      int           // frames to keep around errors, per receiving port; 0 is none
	Ready        func()        // called when the receivers are attached; may be nil
	Progress     func(Account) // called once a second during the run, never concurrently; may be nil
	Observe      func(Account) // called every ObserveEvery, like Progress; may be nil
	ObserveEvery time.Duration
	Engine       Engine // nil is the machine's own: generator and analyzer
}

const (
	// DefaultStraggle is the wait for late frames after the last arrival. It ends early when every
	// frame has arrived.
	DefaultStraggle = 500 * time.Millisecond
	// maxStraggle bounds the wait for a device that keeps sending.
	maxStraggle = 10 * time.Second
)

// Sender is a running generator.
type Sender interface {
	// Progress returns the frames sent so far.
	Progress() tester.Generation
	// Wait returns when the schedule has ended.
	Wait() (tester.Generation, error)
	// Stop ends the schedule early.
	Stop()
}

// Receiver is an attached analyzer.
type Receiver interface {
	Snapshot() (tester.Analysis, error)
	// Captured returns the frames kept around errors since the last call, in order of arrival.
	Captured() ([]tester.CapturedFrame, error)
	// Close detaches the analyzer; nothing is left behind.
	Close() error
}

// Reception configures an analyzer.
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
