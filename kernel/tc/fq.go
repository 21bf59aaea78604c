// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"time"

	"golang.org/x/sys/unix"
)

// FqHorizon is the horizon of an fq with shaped packets, beyond that of any shaper.
const FqHorizon = 10 * time.Minute

// FqCapacity returns the maximum number of packets in the fqs of a device: an eighth of the memory,
// at most the kernel's default of 10,000.
func FqCapacity() uint32 {
	const part, each, least, most = 8, 2304, 10_000, 10_000_000 // bytes of a full frame's buffer with its descriptor
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return least
	}
	return uint32(min(max(uint64(info.Totalram)*uint64(info.Unit)/part/each, least), most))
}
