// SPDX-License-Identifier: Apache-2.0

package rfc2544

import (
	"fmt"
	"time"
)

// busy is the share of a trial from which on a device counts as working all the time: what is
// missing are the moments that the kernel takes from every real-time thread.
const busy = 0.9

// standstill is how many times as long as a full ring takes a frame may wait before the device
// counts as interrupted. What comes behind the ring, the rounds of the device's thread and the
// receiver's ring, takes up to twice as long again.
const standstill = 4

// hopeless is the share of lost frames from which on a trial tells enough: no interruption takes so
// long.
const hopeless = 0.2

// disturbed says why a device of this machine may have lost frames without being at its limit: its
// processor did something else, or stood still. A hypervisor that takes a processor away for a
// millisecond shows in no counter; but the frames that were in the ring have then waited longer
// than the device takes for a full ring, and those behind them found no room.
func (c Config) disturbed(t Trial, o Outcome) (reasons []string) {
	d := o.Device
	if float64(o.Lost()) > hopeless*float64(o.Sent()) {
		return nil
	}
	if d.Waited.Seconds() > c.MaxWaited*t.Duration.Seconds() && d.Ran.Seconds() < busy*t.Duration.Seconds() {
		reasons = append(reasons, fmt.Sprintf("other work kept the device from its processor for %s", d.Waited.Round(time.Millisecond)))
	}
	for _, f := range o.Directions {
		if f.Delay == nil || f.Forwarded <= 0 || d.Ring == 0 {
			continue
		}
		full := time.Duration(float64(d.Ring)/f.Forwarded*1e9) + coalesce
		if waited := time.Duration(f.Delay.Max()); waited > standstill*full {
			reasons = append(reasons, fmt.Sprintf("the device stood still: a frame waited for %s where a full ring takes %s", waited.Round(time.Microsecond), full.Round(time.Microsecond)))
		}
	}
	return reasons
}
