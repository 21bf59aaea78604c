// SPDX-License-Identifier: Apache-2.0

package links

import (
	"time"

	"weir/internal/units"
)

// Parameters of a link's test.
const (
	warmup = 500 * time.Millisecond // lbe fills its queue
	window = 1500 * time.Millisecond
	// fits is the load of all classes except lbe together, overload the load of lbe, relative to
	// the rate.
	fits, overload = .85, 1.1
	// Maximum load of one class other than best effort, and of all these classes together.
	maxOfOne, maxOfOthers = .1, .4
	// A frame takes frameTime of the link, within these sizes in bytes.
	minPacket, maxPacket = 200, 1250
	frameTime            = time.Millisecond
)

// stream is the offered load of one class.
type stream struct {
	class  int // index in the link's list
	dscp   byte
	rate   units.BitRate // on the wire
	packet int           // bytes from the network header on
}

// offered returns the streams of a test: fitting loads of all classes, best effort for the rest,
// and an excess of less than best effort.
func (t *Treatment) offered() (all []stream) {
	packet := min(max(int(octets(t.Rate, frameTime)), minPacket), maxPacket)
	others, be := 0., -1
	for i, c := range t.Classes {
		s := stream{class: i, packet: packet}
		if len(c.DSCP) > 0 {
			s.dscp = byte(c.DSCP[0])
		}
		top := .9 * float64(t.ceiling(c))
		switch c.Name {
		case lowEffort:
			s.rate = units.BitRate(min(overload*float64(t.Rate), 2*float64(t.ceiling(c))))
		case bestEffort:
			be, s.dscp = len(all), 0
		default:
			part := min(float64(c.Weight)/2, maxOfOne, maxOfOthers/float64(len(t.Classes)))
			s.rate = units.BitRate(min(part*float64(t.Rate), top))
			others += float64(s.rate)
		}
		all = append(all, s)
	}
	if be >= 0 {
		top := .9 * float64(t.ceiling(t.Classes[all[be].class]))
		all[be].rate = units.BitRate(min(fits*float64(t.Rate)-others, top))
	}
	return all
}

// onWire returns the size of a stream's packet on the wire.
func (t *Treatment) onWire(s stream) int { return s.packet + ethernetHeader + int(t.Overhead) }
