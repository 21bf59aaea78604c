// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"regexp"

	"weir/internal/units"
	"weir/lab/link"
	"weir/lab/scenario"
)

// plan is derived from a cell before anything is made.
type plan struct {
	names  []string // nodes, and the carrier if a link needs it
	cables []link.Cable
	ends   []End // ends[2i] is link i's A, ends[2i+1] its B
	buffer units.ByteSize
}

func planOf(cell *scenario.Cell) *plan {
	p := &plan{buffer: bufferFor(cell)}
	for _, node := range cell.Nodes {
		p.names = append(p.names, node.Name)
	}
	for i, l := range cell.Links {
		device := deviceName(l.Name, i)
		a := End{Link: l.Name, Node: l.A, Device: device}
		b := End{Link: l.Name, Node: l.B, Device: device}
		if !l.Plain {
			a.Carrier, b.Carrier = fmt.Sprintf("l%da", i), fmt.Sprintf("l%db", i)
			p.cables = append(p.cables, link.Cable{Name: l.Name, A: a.Carrier, B: b.Carrier, Forward: l.Forward, Reverse: l.Reverse})
		} else if l.A == l.B {
			b.Device += "b"
		}
		p.ends = append(p.ends, a, b)
	}
	if len(p.cables) > 0 {
		p.names = append(p.names, carrier)
	}
	return p
}

var devicePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,14}$`)

// deviceName is the link's own name if it is valid for a device (15 characters), otherwise a
// number.
func deviceName(name string, index int) string {
	if devicePattern.MatchString(name) && name != "lo" && name != "all" && name != "default" {
		return name
	}
	return fmt.Sprintf("link%d", index)
}

const (
	minBuffer = 16 << 20
	maxBuffer = 512 << 20
	// assumedRate replaces the rate of links without one when buffers are sized.
	assumedRate = 10e9
)

// bufferFor returns the maximum TCP socket buffer: four times the bytes in flight and in the queues
// of the longest path, because the kernel charges its own overhead too.
func bufferFor(cell *scenario.Cell) units.ByteSize {
	var rate, delay, queues float64
	for _, l := range cell.Links {
		if l.Plain {
			continue
		}
		for _, d := range []link.Direction{l.Forward, l.Reverse} {
			if d.Rate == 0 {
				rate = max(rate, assumedRate)
			}
			rate = max(rate, float64(d.Rate))
			delay += (d.Delay + d.Jitter).Seconds()
			queues += float64(d.Queue.Bytes) + float64(d.Queue.Packets)*1500
		}
	}
	wanted := 4 * (rate*delay/8 + queues)
	return units.ByteSize(min(max(wanted, minBuffer), maxBuffer))
}

// ecnWanted reports whether a flow of the cell from a node to an address of another requests ECN.
func ecnWanted(cell *scenario.Cell, from, to string) bool {
	for _, phase := range cell.Phases {
		for _, flow := range phase.Flows {
			if flow.ECN && flow.From == from && flow.To == to {
				return true
			}
		}
	}
	return false
}
