// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"regexp"

	"weir/internal/units"
	"weir/lab/link"
	"weir/lab/scenario"
)

// plan is what follows from a cell before anything is made.
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

// deviceName is the link's own name where the kernel takes it as a device's (15 characters) and a
// number elsewhere.
func deviceName(name string, index int) string {
	if devicePattern.MatchString(name) && name != "lo" && name != "all" && name != "default" {
		return name
	}
	return fmt.Sprintf("link%d", index)
}

const (
	leastBuffer = 16 << 20
	mostBuffer  = 512 << 20
	// assumedRate stands in for links without a rate when buffers are sized.
	assumedRate = 10e9
)

// bufferFor returns the largest socket buffer that TCP may grow to: four times what the longest
// path can hold in flight and in its queues, since the kernel counts its own overhead against it.
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
	return units.ByteSize(min(max(wanted, leastBuffer), mostBuffer))
}

// ecnWanted says whether a flow of the cell from one node to an address of another asks for ECN.
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
