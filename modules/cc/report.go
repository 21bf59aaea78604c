// SPDX-License-Identifier: Apache-2.0

package cc

import (
	"errors"
	"io/fs"

	"weir/core/module"
)

// fields declares the values of each scope.
func fields() []module.Field[counted] {
	return []module.Field[counted]{
		{Column: module.Column{Name: "assigned", Title: "given it", Unit: module.Events, Kind: module.Counter,
			Help: "TCP connections that were given the congestion control; in shadow, that would have been.", Metric: "connections_assigned_total"},
			Value: sent(func(c Counts) uint64 { return c.Assigned })},
		{Column: module.Column{Name: "no_ecn", Title: "without ECN", Unit: module.Events, Kind: module.Counter,
			Help: "TCP connections left as they were, because the control needs ECN and the peer does not take part.", Metric: "connections_without_ecn_total"},
			Value: sent(func(c Counts) uint64 { return c.NoECN })},
		{Column: module.Column{Name: "chosen", Title: "chose another", Unit: module.Events, Kind: module.Counter,
			Help: "TCP connections left as they were, because the application has chosen a congestion control itself.", Metric: "connections_own_choice_total"},
			Value: sent(func(c Counts) uint64 { return c.Chosen })},
		{Column: module.Column{Name: "failed", Title: "failed", Alarm: true, Unit: module.Events, Kind: module.Counter,
			Help: "TCP connections for which the kernel rejected the control, for instance after its removal.", Metric: "connections_failed_total"},
			Value: sent(func(c Counts) uint64 { return c.Failed })},
		{Column: module.Column{Name: "receivers", Title: "held", Unit: module.Events, Kind: module.Counter,
			Help: "TCP connections with a controlled receive window; in shadow, that would have one.", Metric: "downloads_held_total"},
			Value: received(func(r Received) uint64 { return r.Connections })},
		{Column: module.Column{Name: "no_timestamps", Unit: module.Events, Kind: module.Counter,
			Help: "TCP connections without a controlled receive window, because the peer lacks TCP timestamps.", Metric: "downloads_without_timestamps_total"},
			Value: received(func(r Received) uint64 { return r.NoTimestamps })},
		{Column: module.Column{Name: "slowdowns", Title: "slowdowns", Unit: module.Events, Kind: module.Counter,
			Help: "Slowdowns of receive windows, which measure the base delay.", Metric: "downloads_slowdowns_total"},
			Value: received(func(r Received) uint64 { return r.Slowdowns })},
		{Column: module.Column{Name: "reductions", Unit: module.Events, Kind: module.Counter,
			Help: "Losses that reduced a receive window.", Metric: "downloads_reductions_total"},
			Value: received(func(r Received) uint64 { return r.Reductions })},
		{Column: module.Column{Name: "receive_window", Title: "window", Unit: module.Octets, Kind: module.Gauge,
			Help: "Mean of the receive windows after each acknowledgment.", Metric: "downloads_window_bytes"},
			Value: meanOf(func(r Received) float64 { return float64(r.Window()) })},
		{Column: module.Column{Name: "receive_delay", Title: "queue", Unit: module.Seconds, Kind: module.Gauge,
			Help: "Mean queueing delay of received data.", Metric: "downloads_delay_seconds"},
			Value: meanOf(func(r Received) float64 { return r.Delay().Seconds() })},
	}
}

// counted holds the counters of a scope with a treatment.
type counted struct {
	Counts
	*Treatment
}

// sent is the value of a field that counts, of scopes with a control.
func sent(of func(Counts) uint64) func(counted) module.Value {
	return func(c counted) module.Value {
		if c.Control == "" {
			return module.Value{}
		}
		return module.Counted(of(c.Counts))
	}
}

// received is a field of scopes with receiver-side control.
func received(of func(Received) uint64) func(counted) module.Value {
	return func(c counted) module.Value {
		if c.Downloads == "" {
			return module.Value{}
		}
		return module.Counted(of(c.Received))
	}
}

// meanOf is the value of a field that is a mean, once something was received.
func meanOf(of func(Received) float64) func(counted) module.Value {
	return func(c counted) module.Value {
		if c.Downloads == "" || c.Steps == 0 {
			return module.Value{}
		}
		return module.Measured(of(c.Received))
	}
}

// Columns declares the values of Report.
func (Module) Columns() module.Columns {
	return module.Columns{Rows: module.ColumnsOf(fields()), Promise: "treatment"}
}

// Report returns the counters of connections. A group reports the sum of its members with the same
// control.
func (p *hostPlane) Report(have module.State) (report module.Report, err error) {
	a, err := openAssigner(p.folder())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return report, err
	}
	var sums map[string]Counts
	if err == nil {
		defer func() { _ = a.close() }()
		read := func(index int) (Counts, error) { return readCounts(a.objects.AssignCounts, uint32(index)) }
		same := func(a, b module.Bound) bool { return *treatmentOf(a.Scope) == *treatmentOf(b.Scope) }
		if sums, err = module.Sums(have, read, (*Counts).add, same); err != nil {
			return report, err
		}
	}
	declared := fields()
	for _, b := range have.Scopes {
		treatment := treatmentOf(b.Scope)
		row := module.Row{Scope: b.Name, Promise: treatment.Summary()}
		if sums != nil {
			row.Values = module.ValuesOf(declared, counted{sums[b.Name], treatment})
		}
		report.Rows = append(report.Rows, row)
	}
	return report, nil
}
