// SPDX-License-Identifier: Apache-2.0

// Package scenario reads files that describe experiments and expands them to concrete runs.
//
// A file is validated as a whole before anything runs: unknown keys, impossible values and routes
// that cannot exist are errors with file, line and the nearest valid key. The package is pure: its
// only system call reads the file.
package scenario

import (
	"net/netip"
	"time"

	"weir/lab/expect"
	"weir/lab/link"
	"weir/lab/traffic"
	"weir/record"
)

// Scenario is a validated scenario file. Expand returns its cells.
type Scenario struct {
	Name        string
	Title       string // one line, for lists and reports
	Description string
	Source      string // the file's text, as read
	Seed        uint64
	Repetitions int
	Attempts    int // tries per repetition before the machine is reported as unfit
	Parameters  []Parameter
	Expect      []Expectation
	Published   []Published
	Figures     []FigureRequest
	// Fallback lists alternative values of one parameter, best first; the run uses the first that
	// this machine carries (loss-quick: rate 1 Gbit/s, 500, 250, 100 Mbit/s). Nil in most
	// scenarios.
	Fallback *Fallback
	// TimeLimit is the time after which no further run starts; 0 for no limit.
	TimeLimit time.Duration

	raw *checked // the file as read; Expand substitutes parameters in it
}

// Parameter is one dimension of a sweep. Values are the text that replaces ${Name} in the file.
type Parameter struct {
	Name   string
	Values []string
}

// Fallback is a parameter with values to try in order.
type Fallback struct {
	Parameter string
	Values    []string      // best first
	Within    time.Duration // after it a value is final; 0 for no limit
}

// Expectation is a statement about the results: about the metric itself, or about its ratio to the
// same metric under other labels (RelativeTo).
type Expectation struct {
	Name       string
	Metric     string
	Subject    string
	Where      record.Labels // cells to which it applies; empty: all
	RelativeTo record.Labels // labels that replace those of Where to select the base cells; nil: absolute
	expect.Statement
}

// Published is a figure from the literature, drawn and printed beside the measurement.
type Published struct {
	Source  string
	Metric  string
	Subject string
	Where   record.Labels
	Value   float64 // base unit
	// RelativeTo is not nil if Value is a ratio to the metric with these labels.
	RelativeTo record.Labels
}

// FigureRequest is a requested plot: Metric over parameter X, a curve per value of Series. X is
// "time" for a metric that is a time series. Series is "" for one curve, and "subject" for one per
// flow (Subject is then "").
type FigureRequest struct {
	Name, Title, Metric, Subject, X, Series string
	LogY                                    bool
}

// Cell is one combination of parameter values: the setup and traffic of one run.
type Cell struct {
	Labels record.Labels
	Nodes  []Node
	Links  []Link
	Routes []Route
	Limits []Limit
	Phases []Phase
}

// Fast paths that forward instead of a router's kernel: Weir's offload by XDP, or by tc flower in
// software.
const (
	XDP    = "xdp"
	Flower = "flower"
)

// Node is a host or a router: a network namespace.
type Node struct {
	Name     string
	Router   bool              // forwards IPv4 and IPv6
	Sysctls  map[string]string // "net.ipv4.tcp_rmem" or "net/ipv4/tcp_rmem"
	Offloads map[string]bool   // ethtool feature short names (tso, gso, gro, tx, rx) for the node's devices
	// Forwarding is a router's fast path: XDP or Flower; "" is the kernel.
	Forwarding string
	IOAM       *IOAM // nil if it is not a node of a domain
}

// Link joins two nodes. Addresses are assigned by Expand: one IPv4 /30 and one IPv6 /64 per link.
type Link struct {
	Name                                       string
	A, B                                       string // node names; Forward is A to B
	Forward, Reverse                           link.Direction
	Plain                                      bool     // a bare veth pair: no emulation, no calibration
	Classes                                    *Classes // of a plain link; nil without
	MTU                                        int      // 0 is 1500
	AddressA4, AddressB4, AddressA6, AddressB6 netip.Prefix
}

// Route sends From's packets for To (a node, every address of it) over the link named Via. Expand
// computes shortest paths for all other pairs of nodes with traffic, and lists all routes here.
type Route struct {
	From string
	To   netip.Prefix
	Via  string     // link name
	Hop  netip.Addr // the next node's address on that link
}

// Phase is a time with its flows; phases run one after another.
type Phase struct {
	Name     string
	Duration time.Duration
	// Settle is the time at the phase's start that figures exclude.
	Settle time.Duration
	// Solo requests runs of each contending flow alone: see Cell.Solos.
	Solo    bool
	Flows   []traffic.Flow
	Streams []TesterStream
	// Procedure replaces flows and streams; nil in most phases. Duration then bounds it.
	Procedure *Procedure
}

// TesterStream is a stream of the frame tester between two nodes, or several equal ones.
type TesterStream struct {
	Name      string
	From, To  string
	Family    int     // 4 or 6
	FrameSize int     // bytes, FCS included
	Rate      float64 // frame/s, of all Count
	Count     int     // at least 1; each has its own sequence numbers
	DSCP      uint8
	Start     time.Duration
	Duration  time.Duration
}

// Address returns a node's address in the family (4 or 6): that of its first link.
func (c *Cell) Address(node string, family int) (netip.Addr, bool) {
	for _, l := range c.Links {
		p4, p6 := l.AddressA4, l.AddressA6
		if l.B == node {
			p4, p6 = l.AddressB4, l.AddressB6
		} else if l.A != node {
			continue
		}
		if family == 6 {
			return p6.Addr(), p6.IsValid()
		}
		return p4.Addr(), p4.IsValid()
	}
	return netip.Addr{}, false
}
