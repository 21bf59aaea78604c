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
	// Peer is the other end of a veth pair. If it is given and has no XDP program, a pass-all
	// program is attached there for the run: live frames do not arrive at a veth device without XDP
	// or GRO.
	Peer *Port
	CPUs []int // CPUs to run on; none leaves the choice to the scheduler
}

// Running is a schedule being sent.
type Running interface {
	Progress() tester.Generation      // sent so far; Ended is "" until the end
	Wait() (tester.Generation, error) // waits for the end; the same at every call
	Stop()                            // ends it soon; Wait returns then
}

// LateAfter is the minimum delay of a paced frame that counts as late.
const LateAfter = 10_000 // ns
