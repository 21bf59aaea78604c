// SPDX-License-Identifier: Apache-2.0

package cc

import (
	"errors"
	"fmt"
	"io/fs"

	"weir/internal/room"
	"weir/policy"
)

func counted(of func(Counts) uint64) func(Counts) room.Value {
	return func(c Counts) room.Value { return room.Counted(of(c)) }
}

// fields declares what is told of each scope, once for status, top, JSON, API and metrics.
func fields() []room.Field[Counts] {
	return []room.Field[Counts]{
		{Column: room.Column{Name: "assigned", Title: "given it", Unit: room.Events, Kind: room.Counter,
			Help: "TCP connections that were given the congestion control; in shadow, that would have been.", Metric: "connections_assigned_total"},
			Value: counted(func(c Counts) uint64 { return c.Assigned })},
		{Column: room.Column{Name: "no_ecn", Title: "without ECN", Unit: room.Events, Kind: room.Counter,
			Help: "TCP connections left as they were, because the control needs ECN and the peer does not take part.", Metric: "connections_without_ecn_total"},
			Value: counted(func(c Counts) uint64 { return c.NoECN })},
		{Column: room.Column{Name: "chosen", Title: "chose another", Unit: room.Events, Kind: room.Counter,
			Help: "TCP connections left as they were, because the application has chosen a congestion control itself.", Metric: "connections_own_choice_total"},
			Value: counted(func(c Counts) uint64 { return c.Chosen })},
		{Column: room.Column{Name: "failed", Title: "failed", Alarm: true, Unit: room.Events, Kind: room.Counter,
			Help: "TCP connections that the kernel refused the control, as when it has gone.", Metric: "connections_failed_total"},
			Value: counted(func(c Counts) uint64 { return c.Failed })},
	}
}

// Columns declares what Report tells.
func (Room) Columns() room.Columns {
	return room.Columns{Rows: room.ColumnsOf(fields()), Promise: key}
}

// Report tells what was done with the connections so far. What a group reports is the sum of its
// members that have its control.
func (p *hostPlane) Report(have room.State) (report room.Report, err error) {
	a, err := openAssigner(p.folder())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return report, err
	}
	var sums map[string]Counts
	if err == nil {
		defer func() { _ = a.close() }()
		if sums, err = counts(a, have); err != nil {
			return report, err
		}
	}
	declared := fields()
	for _, b := range have.Scopes {
		row := room.Row{Scope: b.Name, Promise: treatmentOf(b.Scope).Control}
		if sums != nil {
			row.Values = room.ValuesOf(declared, sums[b.Name])
		}
		report.Rows = append(report.Rows, row)
	}
	return report, nil
}

// counts are those of the scopes by name.
func counts(a *assigner, have room.State) (map[string]Counts, error) {
	sums, named := make(map[string]Counts, len(have.Scopes)), have.ByName()
	for _, b := range have.Scopes {
		own, err := readCounts(a.objects.AssignCounts, uint32(b.Index))
		if err != nil {
			return nil, fmt.Errorf("scope %s: %w", b.Name, err)
		}
		control := treatmentOf(b.Scope).Control
		for at, is := b, true; is && treatmentOf(at.Scope).Control == control; at, is = named[at.Parent] {
			if at.Name != b.Name && at.Selector.Kind != policy.Group {
				break // it has counts of its own connections
			}
			sum := sums[at.Name]
			sum.add(own)
			sums[at.Name] = sum
		}
	}
	return sums, nil
}
