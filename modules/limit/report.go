// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"weir/core/module"
	"weir/internal/direction"
	"weir/internal/units"
	"weir/modules/limit/police"
	"weir/modules/limit/shape"
)

// reading is the measured state of one direction of a scope.
type reading struct {
	rate  *Limit
	count police.Counters
	now   police.State
	shape *shape.Counters // nil for a policed direction
}

func bits(of func(reading) units.BitRate) func(reading) module.Value {
	return func(r reading) module.Value { return module.Measured(float64(of(r))) }
}

// ofChild returns a value for scopes with a parent only.
func ofChild(of func(*Limit) float64) func(reading) module.Value {
	return func(r reading) module.Value {
		if r.rate.Weight == 0 {
			return module.Value{}
		}
		return module.Measured(of(r.rate))
	}
}

func count(of func(*police.Counters) uint64) func(reading) module.Value {
	return func(r reading) module.Value { return module.Counted(of(&r.count)) }
}

// ofShaper returns a value for shaped directions only.
func ofShaper(of func(*shape.Counters) uint64) func(reading) module.Value {
	return func(r reading) module.Value {
		if r.shape == nil {
			return module.Value{}
		}
		return module.Counted(of(r.shape))
	}
}

// ofPolicer returns a value for policed directions only.
func ofPolicer(of func(reading) module.Value) func(reading) module.Value {
	return func(r reading) module.Value {
		if r.shape != nil {
			return module.Value{}
		}
		return of(r)
	}
}

// fields declares the values of each direction of a scope, once for status, top, JSON, API and
// metrics.
func fields() []module.Field[reading] {
	return []module.Field[reading]{
		{Column: module.Column{Name: "limit", Title: "limit", NoStatus: true, Unit: module.BitPerSecond, Kind: module.Gauge, Help: "Rate limit of the policy."},
			Value: bits(func(r reading) units.BitRate { return r.rate.Rate })},
		{Column: module.Column{Name: "allowed", Title: "may use", NoStatus: true, Unit: module.BitPerSecond, Kind: module.Gauge,
			Help: "Current rate limit, which is lower while siblings share the parent's rate."},
			Value: bits(func(r reading) units.BitRate { return r.now.Allowed })},
		{Column: module.Column{Name: "bytes", Title: "admitted", Of: "limit", Unit: module.Octets, Kind: module.Counter, Help: "Admitted bytes on the wire."},
			Value: count(func(c *police.Counters) uint64 { return c.Bytes })},
		{Column: module.Column{Name: "packets", Unit: module.Packets, Kind: module.Counter, Help: "Admitted packets; a super-packet (GSO, GRO) counts once.", Metric: "packets_total"},
			Value: count(func(c *police.Counters) uint64 { return c.Packets })},
		{Column: module.Column{Name: "segments", Unit: module.Packets, Kind: module.Counter, Help: "Admitted packets on the wire.", Metric: "segments_total"},
			Value: count(func(c *police.Counters) uint64 { return c.Segments })},
		{Column: module.Column{Name: "queue", Title: "queue", NoStatus: true, Unit: module.Seconds, Kind: module.Gauge, Help: "Current virtual queue; of a shaper, the delay of the next packet."},
			Value: func(r reading) module.Value { return module.Measured(r.now.Queue.Seconds()) }},
		{Column: module.Column{Name: "round_trip_time", Title: "RTT", NoStatus: true, Unit: module.Seconds, Kind: module.Histogram,
			Help: "Round-trip times measured by the scope's TCP senders."},
			Value: ofPolicer(func(r reading) module.Value {
				return module.HistogramValue(module.Buckets{Counts: r.count.RTT, Sum: float64(r.count.RTTSum) / 1e6})
			})},
		{Column: module.Column{Name: "fair_rate", Title: "fair rate", NoStatus: true, Unit: module.BitPerSecond, Kind: module.Gauge, Help: "Rate at which one TCP flow is paced, or throttled by its receiver."},
			Value: bits(func(r reading) units.BitRate { return r.now.FairRate })},
		{Column: module.Column{Name: "marked", Title: "marked", Unit: module.Packets, Kind: module.Counter, Help: "Packets marked CE (congestion experienced)."},
			Value: count(func(c *police.Counters) uint64 { return c.Marked })},
		{Column: module.Column{Name: "reduced", Title: "reduced", Unit: module.Events, Kind: module.Counter, Help: "Requested reductions of a congestion window.", Metric: "reductions_total"},
			Value: count(func(c *police.Counters) uint64 { return c.Reduced })},
		{Column: module.Column{Name: "dropped", Title: "dropped", Alarm: true, Unit: module.Packets, Kind: module.Counter,
			Help: "Packets dropped; a policer rejects them at egress (NET_XMIT_CN), so that the sender is notified."},
			Value: count(func(c *police.Counters) uint64 { return c.Dropped })},
		{Column: module.Column{Name: "forced", Unit: module.Packets, Kind: module.Counter, Help: "Packets admitted above the drop threshold because their sender had nothing in flight."},
			Value: ofPolicer(count(func(c *police.Counters) uint64 { return c.Forced }))},
		{Column: module.Column{Name: "delayed", Unit: module.Packets, Kind: module.Counter, Help: "Packets that a shaper delayed."},
			Value: ofShaper(func(c *shape.Counters) uint64 { return c.Delayed })},
		{Column: module.Column{Name: "early_drops", Unit: module.Packets, Kind: module.Counter,
			Help: "Packets that a shaper dropped at random below the horizon, in place of a mark; included in dropped."},
			Value: ofShaper(func(c *shape.Counters) uint64 { return c.Early })},
		{Column: module.Column{Name: "receive_windows", Unit: module.Events, Kind: module.Counter, Help: "Updates of TCP receive windows, at ingress."},
			Value: count(func(c *police.Counters) uint64 { return c.Windows })},
		{Column: module.Column{Name: "retries", Unit: module.Events, Kind: module.Counter, Help: "Retried updates after a race with another CPU."},
			Value: count(func(c *police.Counters) uint64 { return c.Retries })},
		{Column: module.Column{Name: "queue_time", Unit: module.Seconds, Kind: module.Histogram,
			Help: "Virtual queue at each packet, its own transmission time included; the sum is estimated from the buckets."},
			Value: func(r reading) module.Value { return module.HistogramValue(module.Buckets{Counts: r.count.Queue}) }},
		{Column: module.Column{Name: "min", Unit: module.BitPerSecond, Kind: module.Gauge, Help: "Guaranteed rate within the parent."},
			Value: ofChild(func(r *Limit) float64 { return float64(r.Min) })},
		{Column: module.Column{Name: "weight", Unit: module.Events, Kind: module.Gauge, Help: "Weight among the siblings."},
			Value: ofChild(func(r *Limit) float64 { return float64(r.Weight) })},
	}
}

// Columns declares the values of a report.
func (Module) Columns() module.Columns {
	return module.Columns{Rows: module.ColumnsOf(fields()), Part: "direction", Promise: "rate", Prefix: "scope", Host: []module.Column{
		{Name: "overflow", Unit: module.Packets, Kind: module.Counter, Help: "Packets of more scopes than one packet can be charged to; the outermost are not charged.",
			Bypass: "more than four scopes"},
	}}
}

// Report reads the counters and states of policed directions.
func (p *policer) Report(have module.State) (report module.Report, err error) {
	opened, err := police.LoadPinned(p.host.Pins)
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
	declared := fields()
	for _, b := range have.Scopes {
		for _, d := range direction.Both {
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

func overflow(opened *police.DataPlane, report *module.Report) error {
	n, err := opened.Overflow()
	if err != nil {
		return err
	}
	report.Host = []module.Value{module.Counted(n)}
	if n > 0 {
		report.Note = append(report.Note, fmt.Sprintf("%d packets had more than %d scopes; the outermost were not charged.", n, police.MaxDepth))
	}
	return nil
}

// Report reads the counters and states of all limits.
func (p *plane) Report(have module.State) (module.Report, error) {
	asked := have
	now, fallbacks, avoided, err := p.settle(have)
	if err != nil {
		return module.Report{}, err
	}
	if have, err = p.active(have); err != nil {
		return module.Report{}, err
	}
	report, err := p.police.Report(policedState(have))
	if err != nil {
		return report, err
	}
	named := have.ByName()
	report.Note = slices.Concat(report.Note, fallbackNotes(fallbacks), outdatedModes(asked, have, now))
	for _, f := range avoided {
		if shaped(named[f.scope].Scope, f.direction) {
			report.Note = append(report.Note, fmt.Sprintf("%s: %s is shaped, and bypasses filters that others have added at the ingress of %s (%s): apply the policy again to police it; weir daemon does so.",
				f.scope, f.direction, f.device, strings.Join(f.filters, ", ")))
		} else {
			report.Note = append(report.Note, f.String()+".")
		}
	}
	replaced, err := p.shape.Replaced()
	if err != nil {
		return report, err
	}
	on := here()
	for _, b := range have.Scopes {
		for _, blind := range blindSpots(b.Scope, on) {
			report.Note = append(report.Note, fmt.Sprintf("%s: %s.", b.Name, blind.Text))
		}
	}
	report.Note = slices.Concat(report.Note, replacedTrees(replaced), p.unreachable(shapedState(have)))
	for _, b := range have.Scopes {
		for _, d := range direction.Both {
			if !shaped(b.Scope, d) {
				continue
			}
			r := reading{rate: treatmentOf(b.Scope).of(d)}
			row := module.Row{Scope: b.Name, Part: d.String(), Promise: r.rate.String()}
			if s, there := shaperOf(b, d, named); there {
				c, in, err := p.shape.Counters(s)
				if err != nil {
					return report, err
				}
				if in {
					r.setShaper(c)
					row.Values = module.ValuesOf(fields(), r)
				}
			}
			report.Rows = append(report.Rows, row)
		}
	}
	setModes(report.Rows, named, fallbacks, avoided)
	return report, nil
}

// outdatedModes names the directions that would have another mode if they were applied now.
func outdatedModes(asked, have, now module.State) (notes []string) {
	for i, b := range have.Scopes {
		for _, d := range direction.Both {
			text := "%s: %s is policed, and could be shaped now: apply the policy again; weir daemon does so."
			if policed(now.Scopes[i].Scope, d) {
				text = "%s: %s is shaped, and would be policed now: apply the policy again; weir daemon does so."
			}
			if byDefault(asked.Scopes[i].Scope, d) && shaped(b.Scope, d) != shaped(now.Scopes[i].Scope, d) {
				notes = append(notes, fmt.Sprintf(text, b.Name, d))
			}
		}
	}
	return notes
}

// setModes sets the mode of each row, and the reason why a direction is policed.
func setModes(rows []module.Row, named map[string]module.Bound, fallbacks []fallback, avoided []filtered) {
	reasons := map[string]string{}
	for _, f := range fallbacks {
		reasons[f.scope+"/"+f.direction.String()] = f.why
	}
	for _, f := range avoided {
		reasons[f.scope+"/"+f.direction.String()] = fmt.Sprintf("shaping would bypass the filters of others at the ingress of %s", f.device)
	}
	for i, row := range rows {
		s := named[row.Scope].Scope
		for _, d := range direction.Both {
			switch {
			case d.String() != row.Part:
			case s.Shadow:
				rows[i].Mode = scopeShadow
			case shaped(s, d):
				rows[i].Mode = police.ModeShape
			default:
				rows[i].Mode, rows[i].Reason = police.ModePolice, reasons[row.Scope+"/"+row.Part]
			}
		}
	}
}

// scopeShadow is the mode of a shadow scope, which only counts.
const scopeShadow = "shadow"

// setShaper fills the reading from the counters of a shaper.
func (r *reading) setShaper(c shape.Counters) {
	r.shape = &c
	r.now = police.State{FairRate: c.FairRate, Allowed: r.rate.Rate, Queue: c.Delay}
	r.count.Packets, r.count.Segments, r.count.Bytes, r.count.Marked = c.Packets, c.Segments, c.Octets, c.Marked
	r.count.Reduced, r.count.Dropped, r.count.Retries = c.Notified, c.Early+c.Dropped, c.Retries
	r.count.Windows, r.count.Queue = c.Windows, c.Delays
}
