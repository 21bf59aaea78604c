// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"time"

	"golang.org/x/sys/unix"
)

// FqHorizon of an fq that keeps the packets of limits by delay is beyond that of any of them.
const FqHorizon = 10 * time.Minute

// FqRoom is how many packets may wait in the fqs of a device, whoever sends them: an eighth of the
// memory at most, and the 10,000 that the kernel's own default gives.
func FqRoom() uint32 {
	const part, each, least, most = 8, 2304, 10_000, 10_000_000 // octets of a full frame's buffer with its description
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return least
	}
	return uint32(min(max(uint64(info.Totalram)*uint64(info.Unit)/part/each, least), most))
}
