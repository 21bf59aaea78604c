// SPDX-License-Identifier: Apache-2.0

package links

import (
	"errors"
	"fmt"

	"weir/core/module"
	"weir/kernel/device"
	"weir/kernel/tc"
)

// queue holds the values of a class of a link.
type queue struct {
	tc.Qdisc
	turn uint64  // bytes waiting for service, without those waiting for a departure time
	rate float64 // ceiling of the class, bytes per second
}

func fields() []module.Field[queue] {
	return []module.Field[queue]{
		{Column: module.Column{Name: "packets", Title: "packets", Unit: module.Packets, Kind: module.Counter,
			Help: "Packets sent from the queue of the class; a super-packet (GSO) that the queue does not split counts once.", Metric: "packets_total"},
			Value: module.CountedOf(func(q queue) uint64 { return q.Packets })},
		{Column: module.Column{Name: "octets", Title: "octets", Unit: module.Octets, Kind: module.Counter,
			Help: "Bytes of these packets, with the header of the link layer."},
			Value: module.CountedOf(func(q queue) uint64 { return q.Bytes })},
		{Column: module.Column{Name: "dropped", Title: "dropped", Unit: module.Packets, Kind: module.Counter,
			Help: "Packets dropped because the queue was full or because they waited too long.", Metric: "dropped_total"},
			Value: module.CountedOf(func(q queue) uint64 { return q.Drops })},
		{Column: module.Column{Name: "waiting", Title: "waiting", Unit: module.Octets, Kind: module.Gauge,
			Help: "Bytes in the queue, including shaped packets that wait for their departure time."},
			Value: func(q queue) module.Value { return module.Measured(float64(q.Backlog)) }},
		{Column: module.Column{Name: "delay", Title: "at least", NoTop: true, Unit: module.Seconds, Kind: module.Gauge,
			Help: "Bytes without a later departure time in the queue, divided by the ceiling of the class."},
			Value: func(q queue) module.Value { return module.Measured(float64(q.turn) / q.rate) }},
	}
}

// Columns declares the values of Report: a row for each class of a link.
func (Module) Columns() module.Columns {
	return module.Columns{Rows: module.ColumnsOf(fields()), Part: "class", Promise: "share"}
}

// Report returns the counters of the queues since the tree was set up.
func (p *hostPlane) Report(have module.State) (report module.Report, err error) {
	replaced, err := p.replaced(have)
	around, more := bypasses(have)
	if err := errors.Join(err, more); err != nil {
		return report, err
	}
	report.Note = append(replaced, around...)
	for _, item := range have.Host {
		t, ok := item.Treatment.(*Treatment)
		if !ok {
			continue
		}
		if t.Shadow {
			if err := p.reportShadow(&report, item.Name, t); err != nil {
				return report, err
			}
			continue
		}
		counted, err := t.counted()
		if err != nil && !errors.Is(err, device.ErrGone) {
			return report, err
		}
		if len(counted) == 0 {
			report.Note = append(report.Note, fmt.Sprintf("links.%s: the device is not there, or has no classes", t.Device))
		}
		for i, c := range t.Classes {
			row := module.Row{Scope: item.Name, Part: c.Name, Promise: t.promise(c)}
			if q, known := counted[handleOf(i)]; known {
				row.Values = module.ValuesOf(fields(), queue{plus(q, counted[laterOf(i)]), q.Backlog, float64(t.ceiling(c)) / 8})
			}
			report.Rows = append(report.Rows, row)
		}
	}
	return report, nil
}

// plus returns the sum of two queues.
func plus(a, b tc.Qdisc) tc.Qdisc {
	a.Packets, a.Bytes, a.Drops, a.Backlog = a.Packets+b.Packets, a.Bytes+b.Bytes, a.Drops+b.Drops, a.Backlog+b.Backlog
	return a
}

// reportShadow returns the counters of the shadow program.
func (p *hostPlane) reportShadow(report *module.Report, name string, t *Treatment) error {
	counted, err := p.shadowCounts(t.Device)
	if err != nil {
		return err
	}
	if counted == nil {
		report.Note = append(report.Note, fmt.Sprintf("links.%s: the device is not there, or nothing counts", t.Device))
	}
	for i, c := range t.Classes {
		row := module.Row{Scope: name, Part: c.Name, Promise: t.promise(c) + ", in shadow"}
		if counted != nil {
			n := counted[i]
			row.Values = []module.Value{module.Counted(n.Packets), module.Counted(n.Octets), module.Counted(n.Dropped), {}, {}}
		}
		report.Rows = append(report.Rows, row)
	}
	return nil
}

// promise describes the guarantees of a class.
func (t *Treatment) promise(c Class) string {
	return fmt.Sprintf("%s of %s, up to %s", c.Weight, t.Rate, t.ceiling(c))
}

// counted are the outermost qdiscs of the leaves, by their classes.
func (t *Treatment) counted() (map[tc.Handle]tc.Qdisc, error) {
	known, err := devices()
	if err != nil {
		return nil, err
	}
	if _, there := known[t.Device]; !there {
		return nil, nil
	}
	conn, err := tc.Open(nil)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	all, err := conn.List(t.Device)
	if err != nil {
		return nil, err
	}
	counted := map[tc.Handle]tc.Qdisc{}
	for _, q := range all {
		if q.Parent>>16 == device.RootHandle>>16 {
			counted[q.Parent] = q
		}
	}
	return counted, nil
}
