// SPDX-License-Identifier: Apache-2.0

package rfc2544

import (
	"fmt"
	"time"
)

// busy is the share of a trial above which a device counts as always running: the kernel takes the
// rest from every real-time thread.
const busy = 0.9

// standstill is the maximum wait of a frame in multiples of a full ring's drain time; beyond it the
// device counts as interrupted. The rounds of the device's thread and the receiver's ring add up to
// twice that time.
const standstill = 4

// hopeless is the share of lost frames above which a trial fails in any case: no interruption takes
// so long.
const hopeless = 0.2

// disturbed lists reasons why a device of this machine may have lost frames below its limit: its
// CPU ran other work, or stood still. A hypervisor that takes a CPU for a millisecond shows in no
// counter. But the frames in the ring have then waited longer than the device takes for a full
// ring, and later frames found the ring full.
func (c Config) disturbed(t Trial, o Outcome) (reasons []string) {
	d := o.Device
	if float64(o.Lost()) > hopeless*float64(o.Sent()) {
		return nil
	}
	if d.Waited.Seconds() > c.MaxWaited*t.Duration.Seconds() && d.Ran.Seconds() < busy*t.Duration.Seconds() {
		reasons = append(reasons, fmt.Sprintf("other work kept the device off its CPU for %s", d.Waited.Round(time.Millisecond)))
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
