// SPDX-License-Identifier: Apache-2.0

package dscp

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"weir/internal/nearest"
)

// DSCP is a differentiated services code point, 0 to 63 (RFC 2474).
type DSCP uint8

// Code points with special treatment.
const (
	BestEffort DSCP = 0
	LowEffort  DSCP = 1  // LE, RFC 8622
	Scavenger  DSCP = 8  // CS1: less than best effort by Internet2's QBSS
	Expedited  DSCP = 46 // EF, RFC 3246
	Control    DSCP = 48 // CS6, RFC 2474
)

// names maps the names of classes and code points (RFC 2474, 2597, 3246, 5865, 8622).
var names = map[string]DSCP{
	"lbe": LowEffort, "best-effort": BestEffort, "premium": Expedited, "network-control": Control,
	"le": LowEffort, "default": BestEffort, "ef": Expedited, "va": 44,
	"cs0": 0, "cs1": Scavenger, "cs2": 16, "cs3": 24, "cs4": 32, "cs5": 40, "cs6": Control, "cs7": 56,
	"af11": 10, "af12": 12, "af13": 14, "af21": 18, "af22": 20, "af23": 22,
	"af31": 26, "af32": 28, "af33": 30, "af41": 34, "af42": 36, "af43": 38,
}

// Names are the names of classes and code points, sorted.
func Names() []string { return slices.Sorted(maps.Keys(names)) }

// ParseDSCP reads the name of a class or of a code point, or its number.
func ParseDSCP(text string) (DSCP, error) {
	name := strings.ToLower(text)
	if d, known := names[name]; known {
		return d, nil
	}
	n, err := strconv.ParseUint(name, 0, 8)
	switch {
	case err == nil && n < 64:
		return DSCP(n), nil
	case err == nil:
		return 0, fmt.Errorf("%s is no DSCP: they are 0 to 63, a quarter of the octet of type of service", text)
	}
	if near := nearest.Of(name, Names()); near != "" {
		return 0, fmt.Errorf("%q is no class: write %s if that is meant", text, near)
	}
	return 0, fmt.Errorf("%q is no class: write lbe, best-effort, premium, network-control, the name of a DSCP as AF21, or its number", text)
}

// String is the code point's name, or its number.
func (d DSCP) String() string {
	if d == LowEffort {
		return "LE"
	}
	for name, of := range names {
		if of == d && len(name) <= 4 && name != "lbe" && name != "le" && name != "cs0" {
			return strings.ToUpper(name)
		}
	}
	if d == BestEffort {
		return "CS0"
	}
	return "DSCP " + strconv.Itoa(int(d))
}

// Priorities of packets in the host's own queues (linux/pkt_sched.h), by which pfifo_fast and prio
// choose a band.
const (
	prioBulk        = 2
	prioInteractive = 6
	prioControl     = 7
)

// Priority returns the packet priority of a code point in the queues of this host; false keeps that
// of the sender.
func (d DSCP) Priority() (uint32, bool) {
	switch {
	case d == LowEffort || d == Scavenger:
		return prioBulk, true
	case d == Expedited:
		return prioInteractive, true
	case d >= Control:
		return prioControl, true
	}
	return 0, false
}
