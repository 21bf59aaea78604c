// SPDX-License-Identifier: Apache-2.0

package link

import (
	"time"

	"weir/internal/fault"
)

// Discipline is how a bottleneck's queue is managed.
type Discipline string

const (
	DropTail Discipline = ""         // first in, first out; drops at a full queue
	CoDel    Discipline = "codel"    // RFC 8289
	FQCoDel  Discipline = "fq_codel" // RFC 8290
	PIE      Discipline = "pie"      // RFC 8033
	CAKE     Discipline = "cake"     // tc-cake(8), the kernel's own: fair queues, three tins by DSCP, COBALT
)

// Disciplines lists the disciplines that manage a queue.
func Disciplines() []Discipline { return []Discipline{CoDel, FQCoDel, PIE, CAKE} }

// Meaning describes it in a line.
func (d Discipline) Meaning() string {
	return map[Discipline]string{
		DropTail: "first in, first out; drops at a full queue",
		CoDel:    "controlled delay (RFC 8289): drops or marks at the head while the delay stays above its target",
		FQCoDel:  "the same in a queue for each flow (RFC 8290), served by deficit round robin",
		PIE:      "proportional integral controller enhanced (RFC 8033): drops or marks on arrival, with a probability that follows the delay",
		CAKE:     "the kernel's own (tc-cake(8)): fair queues, three tins by DSCP, COBALT",
	}[d]
}

// Target is a discipline's default target delay. Interval is CoDel's default interval or PIE's time
// between updates.
func (d Discipline) Target() time.Duration {
	if d == PIE {
		return 15 * time.Millisecond
	}
	return 5 * time.Millisecond
}

// Interval is documented with Target.
func (d Discipline) Interval() time.Duration {
	if d == PIE {
		return 15 * time.Millisecond
	}
	return 100 * time.Millisecond
}

// Packets is the default limit of the discipline; 0 for CAKE, which has its own in bytes.
func (d Discipline) Packets() int {
	switch d {
	case FQCoDel:
		return 10240
	case CAKE:
		return 0
	}
	return 1000
}

// Managed reports whether the discipline drops or marks before the queue is full.
func (q Queue) Managed() bool { return q.Discipline != DropTail }

// WithDefaults returns a managed queue with the defaults of its discipline.
func (q Queue) WithDefaults() Queue {
	if !q.Managed() {
		return q
	}
	if q.Target == 0 {
		q.Target = q.Discipline.Target()
	}
	if q.Interval == 0 {
		q.Interval = q.Discipline.Interval()
	}
	if q.Packets == 0 && q.Bytes == 0 {
		q.Packets = q.Discipline.Packets()
	}
	return q
}

// checkQueue rejects invalid combinations.
func checkQueue(d Direction) error {
	q := d.Queue
	usage := func(format string, args ...any) error {
		return fault.New(fault.Usage, "correct the link's description", format, args...)
	}
	switch q.Discipline {
	case DropTail:
		return nil
	case CoDel, FQCoDel, PIE, CAKE:
	default:
		return usage("queue discipline %q is not known", q.Discipline)
	}
	switch {
	case d.Rate == 0:
		return usage("a queue discipline needs a rate")
	case q.ECN > 0:
		return usage("%s marks by itself, not by queued bytes", q.Discipline)
	case q.Discipline == CAKE && q.Packets > 0:
		return usage("cake limits its queue in bytes, not in packets")
	case q.Target < 0 || q.Interval < 0:
		return usage("a target or interval is negative")
	}
	return nil
}
