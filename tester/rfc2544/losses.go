// SPDX-License-Identifier: Apache-2.0

package rfc2544

import (
	"fmt"
	"strings"
)

// Losses counts lost frames by place.
type Losses struct {
	Frames  uint64 // in all
	Refused uint64 // the device's receive ring was full
	Dropped uint64 // forwarded by the device, not accepted by its sending device
	Missed  uint64 // dropped by the tester's receiving device
}

func (l *Losses) add(o Outcome) {
	l.Frames += o.Lost()
	l.Refused += min(o.Refused, o.Lost())
	l.Missed += o.Dropped
	if o.Device != nil {
		l.Dropped += o.Device.Dropped
	}
}

// String returns text for a report: "receive ring 99.8 %, elsewhere 0.2 %".
func (l Losses) String() string {
	if l.Frames == 0 {
		return "none was lost"
	}
	var parts []string
	add := func(place string, n uint64) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s %.1f %%", place, 100*float64(min(n, l.Frames))/float64(l.Frames)))
		}
	}
	add("receive ring", l.Refused)
	add("sending device", l.Dropped)
	add("tester's receiver", l.Missed)
	add("elsewhere", l.Frames-min(l.Refused+l.Dropped+l.Missed, l.Frames))
	return strings.Join(parts, ", ")
}

// sum adds the losses and validity of a result's trials.
func (t *ThroughputResult) sum(attempts []Attempt) {
	for _, a := range attempts {
		t.Trials++
		if !a.Valid {
			t.Rejected++
			continue
		}
		t.Losses.add(a.Outcome)
		t.Offers = max(t.Offers, a.Outcome.slowest(func(f Flow) float64 { return f.Offered }))
	}
}
