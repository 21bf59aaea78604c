// SPDX-License-Identifier: Apache-2.0

package hops

import (
	"fmt"
	"net/netip"

	"weir/internal/dscp"
)

// Hop is the result for one hop.
type Hop struct {
	Hop     int        `json:"hop"`              // from 1
	Address netip.Addr `json:"address,omitzero"` // source of the ICMP error, or the destination
	Answer  Answer     `json:"answer"`
	// DSCP is the code point of the probe at this hop, if Known.
	DSCP  dscp.DSCP `json:"dscp"`
	Known bool      `json:"dscp_known"`
}

// Answer is the kind of a hop's answer.
type Answer string

const (
	// Silent hops send no ICMP errors, or limit them, or drop the probes.
	Silent Answer = "no answer"
	// Opened and Reset are a destination's answers to TCP, Replied is to a datagram.
	Opened  Answer = "connection opened"
	Reset   Answer = "reset"
	Replied Answer = "replied"
)

// last reports whether an answer ends the path.
func (a Answer) last() bool { return a != Silent && a != Answer(Exceeded) }

// Change is a change of the code point.
type Change struct {
	// After and Before are the hops around the change: After had the former value, and 0 is this
	// host. Either of them, or a silent hop between them, made the change.
	After  int       `json:"after_hop"`
	Before int       `json:"before_hop"`
	Was    dscp.DSCP `json:"was"`
	Now    dscp.DSCP `json:"now"`
}

// Bleached reports whether the code point was reset to best effort.
func (c Change) Bleached() bool { return c.Now == dscp.BestEffort }

func (c Change) String() string {
	verb := "rewritten"
	if c.Bleached() {
		verb = "bleached"
	}
	first := fmt.Sprintf("hop %d where it left", c.After)
	if c.After == 0 {
		first = "this host"
	}
	between := ""
	if c.Before > c.After+1 {
		between = ", a silent hop between them"
	}
	return fmt.Sprintf("%s %s to %s: by %s%s, or hop %d where it came in", c.Was, verb, c.Now, first, between, c.Before)
}

// Path is one trace.
type Path struct {
	To       netip.Addr `json:"to"`
	Protocol string     `json:"protocol"` // udp or tcp
	Port     uint16     `json:"port"`
	Sent     dscp.DSCP  `json:"sent"`
	Hops     []Hop      `json:"hops"`
}

// Changes returns the changes between quotes, in path order.
func (p Path) Changes() []Change {
	at, was, all := 0, p.Sent, []Change{}
	for _, h := range p.Hops {
		if !h.Known {
			continue
		}
		if h.DSCP != was {
			all = append(all, Change{After: at, Before: h.Hop, Was: was, Now: h.DSCP})
		}
		at, was = h.Hop, h.DSCP
	}
	return all
}

// Known returns the last hop with a known code point; 0 for none.
func (p Path) Known() (hop int) {
	for _, h := range p.Hops {
		if h.Known {
			hop = h.Hop
		}
	}
	return hop
}

// Reached reports whether the destination itself has answered.
func (p Path) Reached() bool { return p.Ends() && p.Hops[len(p.Hops)-1].Address == p.To }

// Whole reports whether the code point is known up to the destination.
func (p Path) Whole() bool { return p.Reached() && p.Known() == p.Hops[len(p.Hops)-1].Hop }

// Ends reports whether the destination, or a router that rejects the packet, has answered.
func (p Path) Ends() bool { return len(p.Hops) > 0 && p.Hops[len(p.Hops)-1].Answer.last() }
