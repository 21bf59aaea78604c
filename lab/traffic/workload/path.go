// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"time"

	"weir/internal/units"
)

// Path is the path of transfers.
type Path struct {
	There, Back time.Duration // delays of its links
	Rate        units.BitRate // of its slowest link that has one, on the wire; 0 is none
	Payload     int           // bytes of payload in a full frame
	Headers     int           // other bytes of a frame, overhead on the wire included
}

// wire is the size of a transfer on a link, in bytes.
func (p Path) wire(octets uint64) float64 {
	frames := (octets + uint64(p.Payload) - 1) / uint64(p.Payload)
	return float64(octets) + float64(frames)*float64(p.Headers)
}

// PerSecond is the number of transfers per second that use the share load of the rate with full
// frames.
func (p Path) PerSecond(load, mean float64) float64 {
	return load * float64(p.Rate) / 8 / (mean * float64(p.Payload+p.Headers) / float64(p.Payload))
}

// Ideal is the minimum time of a transfer that is alone: a handshake, the delay of its last byte,
// and all of its frames at the rate. It is 0 if the path has neither delay nor rate.
func (p Path) Ideal(octets uint64) time.Duration {
	ideal := 2*p.There + p.Back
	if p.Rate > 0 {
		ideal += time.Duration(p.wire(octets) * 8e9 / float64(p.Rate))
	}
	return ideal
}
