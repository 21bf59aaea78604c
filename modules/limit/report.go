// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"errors"
	"fmt"
	"io/fs"

	"weir/core/module"
	"weir/core/selector"
	"weir/internal/units"
	"weir/modules/limit/shape"
)

// reading is what is read of one direction of a scope.
type reading struct {
	rate  *Limit
	count Counters
	now   State
	delay *shape.Counters // of a limit by delay; nil otherwise
}

func bits(of func(reading) units.BitRate) func(reading) module.Value {
	return func(r reading) module.Value { return module.Measured(float64(of(r))) }
}

// ofParent is a value that only scopes with a parent have.
func ofParent(of func(*Limit) float64) func(reading) module.Value {
	return func(r reading) module.Value {
		if r.rate.Weight == 0 {
			return module.Value{}
		}
		return module.Measured(of(r.rate))
	}
}

func counted(of func(*Counters) uint64) func(reading) module.Value {
	return func(r reading) module.Value { return module.Counted(of(&r.count)) }
}

// byDelay is a value that only limits by delay have, byRefusal one that only the others have.
func byDelay(of func(*shape.Counters) uint64) func(reading) module.Value {
	return func(r reading) module.Value {
		if r.delay == nil {
			return module.Value{}
		}
		return module.Counted(of(r.delay))
	}
}

func byRefusal(of func(reading) module.Value) func(reading) module.Value {
	return func(r reading) module.Value {
		if r.delay != nil {
			return module.Value{}
		}
		return of(r)
	}
}

// fields declares what is told of each direction of a scope, once for status, top, JSON, API and
// metrics.
func fields() []module.Field[reading] {
	return []module.Field[reading]{
		{Column: module.Column{Name: "limit", Title: "limit", NoStatus: true, Unit: module.BitPerSecond, Kind: module.Gauge, Help: "The rate that the policy allows."},
			Value: bits(func(r reading) units.BitRate { return r.rate.Rate })},
		{Column: module.Column{Name: "allowed", Title: "may use", NoStatus: true, Unit: module.BitPerSecond, Kind: module.Gauge,
			Help: "What the scope may use now: the limit, or less where it shares a parent."},
			Value: bits(func(r reading) units.BitRate { return r.now.Allowed })},
		{Column: module.Column{Name: "bytes", Title: "admitted", Of: "limit", Unit: module.Octets, Kind: module.Counter, Help: "Octets admitted, as the wire carries them."},
			Value: counted(func(c *Counters) uint64 { return c.Bytes })},
		{Column: module.Column{Name: "packets", Unit: module.Packets, Kind: module.Counter, Help: "Packets admitted, as the stack hands them over.", Metric: "packets_total"},
			Value: counted(func(c *Counters) uint64 { return c.Packets })},
		{Column: module.Column{Name: "segments", Unit: module.Packets, Kind: module.Counter, Help: "Packets admitted, as the wire carries them.", Metric: "segments_total"},
			Value: counted(func(c *Counters) uint64 { return c.Segments })},
		{Column: module.Column{Name: "queue", Title: "queue", NoStatus: true, Unit: module.Seconds, Kind: module.Gauge, Help: "Length of the virtual queue now, which by delay is what the next packet waits."},
			Value: func(r reading) module.Value { return module.Measured(r.now.Queue.Seconds()) }},
		{Column: module.Column{Name: "round_trip_time", Title: "RTT", NoStatus: true, Unit: module.Seconds, Kind: module.Histogram,
			Help: "Round-trip times that the scope's TCP senders have measured."},
			Value: byRefusal(func(r reading) module.Value {
				return module.HistogramValue(module.Buckets{Counts: r.count.RTT, Sum: float64(r.count.RTTSum) / 1e6})
			})},
		{Column: module.Column{Name: "fair_rate", Title: "fair rate", NoStatus: true, Unit: module.BitPerSecond, Kind: module.Gauge, Help: "The rate that one TCP flow is paced at, or held to by its receiver."},
			Value: bits(func(r reading) units.BitRate { return r.now.FairRate })},
		{Column: module.Column{Name: "marked", Title: "marked", Unit: module.Packets, Kind: module.Counter, Help: "Packets marked with congestion experienced."},
			Value: counted(func(c *Counters) uint64 { return c.Marked })},
		{Column: module.Column{Name: "reduced", Title: "reduced", Unit: module.Events, Kind: module.Counter, Help: "Reductions of a congestion window asked for.", Metric: "reductions_total"},
			Value: counted(func(c *Counters) uint64 { return c.Reduced })},
		{Column: module.Column{Name: "refused", Title: "refused", Alarm: true, Unit: module.Packets, Kind: module.Counter,
			Help: "Packets not admitted: egress rejects them with congestion notification, ingress and limits by delay drop them."},
			Value: counted(func(c *Counters) uint64 { return c.Refused })},
		{Column: module.Column{Name: "forced", Unit: module.Packets, Kind: module.Counter, Help: "Packets admitted beyond the threshold because their sender had nothing in flight."},
			Value: byRefusal(counted(func(c *Counters) uint64 { return c.Forced }))},
		{Column: module.Column{Name: "delayed", Unit: module.Packets, Kind: module.Counter, Help: "Packets that had to wait for their time; of limits by delay."},
			Value: byDelay(func(c *shape.Counters) uint64 { return c.Delayed })},
		{Column: module.Column{Name: "early_drops", Unit: module.Packets, Kind: module.Counter,
			Help: "Packets, among the refused, that were dropped by chance before the horizon since they could not be marked; of limits by delay."},
			Value: byDelay(func(c *shape.Counters) uint64 { return c.Early })},
		{Column: module.Column{Name: "receive_windows", Unit: module.Events, Kind: module.Counter, Help: "Receive windows of TCP sockets set, at ingress."},
			Value: counted(func(c *Counters) uint64 { return c.Windows })},
		{Column: module.Column{Name: "retries", Unit: module.Events, Kind: module.Counter, Help: "Retries of an update that another processor was ahead of."},
			Value: counted(func(c *Counters) uint64 { return c.Retries })},
		{Column: module.Column{Name: "queue_time", Unit: module.Seconds, Kind: module.Histogram,
			Help: "Virtual queue that packets have met, their own time included; the sum is an estimate from the buckets."},
			Value: func(r reading) module.Value { return module.HistogramValue(module.Buckets{Counts: r.count.Queue}) }},
		{Column: module.Column{Name: "min", Unit: module.BitPerSecond, Kind: module.Gauge, Help: "What the parent keeps for the scope."},
			Value: ofParent(func(r *Limit) float64 { return float64(r.Min) })},
		{Column: module.Column{Name: "weight", Unit: module.Events, Kind: module.Gauge, Help: "The scope's part of its parent, against its siblings' weights."},
			Value: ofParent(func(r *Limit) float64 { return float64(r.Weight) })},
	}
}

// Columns declares what Report tells.
func (Module) Columns() module.Columns {
	return module.Columns{Rows: module.ColumnsOf(fields()), Part: "direction", Promise: "rate", Prefix: "scope", Host: []module.Column{
		{Name: "overflow", Unit: module.Packets, Kind: module.Counter, Help: "Packets of more scopes than one packet can be charged to.",
			Bypass: "more than four scopes"},
	}}
}

// Report tells what the limits have done so far.
func (p *hostPlane) Report(have module.State) (report module.Report, err error) {
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
			row := module.Row{Scope: b.Name, Part: d.String(), Promise: r.rate.String()}
			if opened != nil {
				if r.count, err = opened.Counters(b.Index, d); err == nil {
					r.now, err = opened.State(b.Index, d)
				}
				if err != nil {
					return report, fmt.Errorf("scope %s: %w", b.Name, err)
				}
				row.Values = module.ValuesOf(declared, r)
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
func remarks(have module.State) (notes []string) {
	for _, b := range have.Scopes {
		if b.Selector.Kind == kindInterface && !selector.IsLoopback(b.Selector) && refuses(b.Scope) {
			notes = append(notes, fmt.Sprintf("%s: what this host forwards or bridges over %s is not limited.", b.Name, b.Selector.Text))
		}
	}
	return notes
}

func overflow(opened *DataPlane, report *module.Report) error {
	n, err := opened.Overflow()
	if err != nil {
		return err
	}
	report.Host = []module.Value{module.Counted(n)}
	if n > 0 {
		report.Note = append(report.Note, fmt.Sprintf("%d packets had more than %d scopes; the outermost were not charged.", n, MaxDepth))
	}
	return nil
}
