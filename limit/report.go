// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"errors"
	"fmt"
	"io/fs"

	"weir/internal/room"
	"weir/internal/selector"
	"weir/internal/units"
	"weir/limit/delay"
)

// reading is what is read of one direction of a scope.
type reading struct {
	rate  *Limit
	count Counters
	now   State
	delay *delay.Counters // of a limit by delay; nil otherwise
}

func bits(of func(reading) units.BitRate) func(reading) room.Value {
	return func(r reading) room.Value { return room.Measured(float64(of(r))) }
}

// ofParent is a value that only scopes with a parent have.
func ofParent(of func(*Limit) float64) func(reading) room.Value {
	return func(r reading) room.Value {
		if r.rate.Weight == 0 {
			return room.Value{}
		}
		return room.Measured(of(r.rate))
	}
}

func counted(of func(*Counters) uint64) func(reading) room.Value {
	return func(r reading) room.Value { return room.Counted(of(&r.count)) }
}

// byDelay is a value that only limits by delay have, byRefusal one that only the others have.
func byDelay(of func(*delay.Counters) uint64) func(reading) room.Value {
	return func(r reading) room.Value {
		if r.delay == nil {
			return room.Value{}
		}
		return room.Counted(of(r.delay))
	}
}

func byRefusal(of func(reading) room.Value) func(reading) room.Value {
	return func(r reading) room.Value {
		if r.delay != nil {
			return room.Value{}
		}
		return of(r)
	}
}

// fields declares what is told of each direction of a scope, once for status, top, JSON, API and
// metrics.
func fields() []room.Field[reading] {
	return []room.Field[reading]{
		{Column: room.Column{Name: "limit", Title: "limit", NoStatus: true, Unit: room.BitPerSecond, Kind: room.Gauge, Help: "The rate that the policy allows."},
			Value: bits(func(r reading) units.BitRate { return r.rate.Rate })},
		{Column: room.Column{Name: "allowed", Title: "may use", NoStatus: true, Unit: room.BitPerSecond, Kind: room.Gauge,
			Help: "What the scope may use now: the limit, or less where it shares a parent."},
			Value: bits(func(r reading) units.BitRate { return r.now.Allowed })},
		{Column: room.Column{Name: "bytes", Title: "admitted", Of: "limit", Unit: room.Octets, Kind: room.Counter, Help: "Octets admitted, as the wire carries them."},
			Value: counted(func(c *Counters) uint64 { return c.Bytes })},
		{Column: room.Column{Name: "packets", Unit: room.Packets, Kind: room.Counter, Help: "Packets admitted, as the stack hands them over.", Metric: "packets_total"},
			Value: counted(func(c *Counters) uint64 { return c.Packets })},
		{Column: room.Column{Name: "segments", Unit: room.Packets, Kind: room.Counter, Help: "Packets admitted, as the wire carries them.", Metric: "segments_total"},
			Value: counted(func(c *Counters) uint64 { return c.Segments })},
		{Column: room.Column{Name: "queue", Title: "queue", NoStatus: true, Unit: room.Seconds, Kind: room.Gauge, Help: "Length of the virtual queue now, which by delay is what the next packet waits."},
			Value: func(r reading) room.Value { return room.Measured(r.now.Queue.Seconds()) }},
		{Column: room.Column{Name: "round_trip_time", Title: "RTT", NoStatus: true, Unit: room.Seconds, Kind: room.Histogram,
			Help: "Round-trip times that the scope's TCP senders have measured."},
			Value: byRefusal(func(r reading) room.Value {
				return room.Spread(room.Buckets{Counts: r.count.RTT, Sum: float64(r.count.RTTSum) / 1e6})
			})},
		{Column: room.Column{Name: "fair_rate", Title: "fair rate", NoStatus: true, Unit: room.BitPerSecond, Kind: room.Gauge, Help: "The rate that one TCP flow is paced at, or held to by its receiver."},
			Value: bits(func(r reading) units.BitRate { return r.now.FairRate })},
		{Column: room.Column{Name: "marked", Title: "marked", Unit: room.Packets, Kind: room.Counter, Help: "Packets marked with congestion experienced."},
			Value: counted(func(c *Counters) uint64 { return c.Marked })},
		{Column: room.Column{Name: "reduced", Title: "reduced", Unit: room.Events, Kind: room.Counter, Help: "Reductions of a congestion window asked for.", Metric: "reductions_total"},
			Value: counted(func(c *Counters) uint64 { return c.Reduced })},
		{Column: room.Column{Name: "refused", Title: "refused", Alarm: true, Unit: room.Packets, Kind: room.Counter,
			Help: "Packets not admitted: egress rejects them with congestion notification, ingress and limits by delay drop them."},
			Value: counted(func(c *Counters) uint64 { return c.Refused })},
		{Column: room.Column{Name: "forced", Unit: room.Packets, Kind: room.Counter, Help: "Packets admitted beyond the threshold because their sender had nothing in flight."},
			Value: byRefusal(counted(func(c *Counters) uint64 { return c.Forced }))},
		{Column: room.Column{Name: "delayed", Unit: room.Packets, Kind: room.Counter, Help: "Packets that had to wait for their time; of limits by delay."},
			Value: byDelay(func(c *delay.Counters) uint64 { return c.Delayed })},
		{Column: room.Column{Name: "early_drops", Unit: room.Packets, Kind: room.Counter,
			Help: "Packets, among the refused, that were dropped by chance before the horizon since they could not be marked; of limits by delay."},
			Value: byDelay(func(c *delay.Counters) uint64 { return c.Early })},
		{Column: room.Column{Name: "receive_windows", Unit: room.Events, Kind: room.Counter, Help: "Receive windows of TCP sockets set, at ingress."},
			Value: counted(func(c *Counters) uint64 { return c.Windows })},
		{Column: room.Column{Name: "retries", Unit: room.Events, Kind: room.Counter, Help: "Retries of an update that another processor was ahead of."},
			Value: counted(func(c *Counters) uint64 { return c.Retries })},
		{Column: room.Column{Name: "queue_time", Unit: room.Seconds, Kind: room.Histogram,
			Help: "Virtual queue that packets have met, their own time included; the sum is an estimate from the buckets."},
			Value: func(r reading) room.Value { return room.Spread(room.Buckets{Counts: r.count.Queue}) }},
		{Column: room.Column{Name: "min", Unit: room.BitPerSecond, Kind: room.Gauge, Help: "What the parent keeps for the scope."},
			Value: ofParent(func(r *Limit) float64 { return float64(r.Min) })},
		{Column: room.Column{Name: "weight", Unit: room.Events, Kind: room.Gauge, Help: "The scope's part of its parent, against its siblings' weights."},
			Value: ofParent(func(r *Limit) float64 { return float64(r.Weight) })},
	}
}

// Columns declares what Report tells.
func (Room) Columns() room.Columns {
	return room.Columns{Rows: room.ColumnsOf(fields()), Part: "direction", Promise: "rate", Prefix: "scope", Host: []room.Column{
		{Name: "overflow", Unit: room.Packets, Kind: room.Counter, Help: "Packets of more scopes than one packet can be charged to.",
			Bypass: "more than four scopes"},
	}}
}

// Report tells what the limits have done so far.
func (p *hostPlane) Report(have room.State) (report room.Report, err error) {
	opened, err := LoadPinned(p.host.Pins)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return report, err
	}
	if err == nil {
		defer func() { _ = opened.Close() }()
		if err := overflow(opened, &report); err != nil {
			return report, err
		}
	} else {
		opened = nil
	}
	report.Note = append(report.Note, remarks(have)...)
	declared := fields()
	for _, b := range have.Scopes {
		for _, d := range Directions {
			r := reading{rate: treatmentOf(b.Scope).of(d)}
			if r.rate == nil {
				continue
			}
			row := room.Row{Scope: b.Name, Part: d.String(), Promise: r.rate.String()}
			if opened != nil {
				if r.count, err = opened.Counters(b.Index, d); err == nil {
					r.now, err = opened.State(b.Index, d)
				}
				if err != nil {
					return report, fmt.Errorf("scope %s: %w", b.Name, err)
				}
				row.Values = room.ValuesOf(declared, r)
				if b.Parent != "" {
					row.Promise = fmt.Sprintf("%s of %s, now %s", r.rate, b.Parent, r.now.Allowed.Short())
				}
			}
			report.Rows = append(report.Rows, row)
		}
	}
	return report, nil
}

// remarks say what scopes that are in force do not reach, as far as counters cannot.
func remarks(have room.State) (notes []string) {
	for _, b := range have.Scopes {
		if b.Selector.Kind == kindInterface && !selector.IsLoopback(b.Selector) && refuses(b.Scope) {
			notes = append(notes, fmt.Sprintf("%s: what this host forwards or bridges over %s is not limited.", b.Name, b.Selector.Text))
		}
	}
	return notes
}

func overflow(opened *DataPlane, report *room.Report) error {
	n, err := opened.Overflow()
	if err != nil {
		return err
	}
	report.Host = []room.Value{room.Counted(n)}
	if n > 0 {
		report.Note = append(report.Note, fmt.Sprintf("%d packets had more than %d scopes; the outermost were not charged.", n, MaxDepth))
	}
	return nil
}
