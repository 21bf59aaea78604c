// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"weir/kernel/netns"
	"weir/tester"
)

// Port is a device to send from.
type Port struct {
	Namespace *netns.Namespace // nil is the calling thread's own
	Device    string
	// Peer is the other end of a veth pair. Where it is given and has no XDP program, one that
	// passes everything is attached there for the time of the run: live frames do not arrive at a
	// veth device without XDP or GRO.
	Peer *Port
	CPUs []int // to run on; none is wherever the scheduler likes
}

// Running is a schedule being sent.
type Running interface {
	Progress() tester.Generation      // what was sent so far; Ended is "" until the end
	Wait() (tester.Generation, error) // waits for the end; the same at every call
	Stop()                            // ends it soon; Wait tells when
}

// LateAfter is how late a paced frame leaves to be counted as late.
const LateAfter = 10_000 // ns
