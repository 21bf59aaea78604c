// SPDX-License-Identifier: Apache-2.0

package frame_test

import (
	"fmt"

	"weir/tester"
	"weir/tester/frame"
)

// An IMIX is sent as a cycle of sizes, in proportion; the entries are indices of the list of
// shares.
func ExampleCycle() {
	fmt.Println(frame.Cycle([]tester.SizeShare{{Size: 64, Weight: 7}, {Size: 570, Weight: 4}, {Size: 1518, Weight: 1}}))
	// Output: [0 1 0 0 1 0 2 0 1 0 1 0]
}

// A stamp identifies one frame of a stream.
func ExamplePutStamp() {
	octets := make([]byte, tester.StampSize)
	frame.PutStamp(octets, frame.Stamp{Sequence: 7})
	fmt.Printf("%x\n", octets[:8])
	// Output: 0000000000000007
}
