// SPDX-License-Identifier: Apache-2.0

package class

import (
	"weir/core/module"
)

// Counts holds the counters of a scope; in shadow, of the hypothetical effect.
type Counts struct {
	Packets uint64 `json:"packets"` // a super-packet (GSO) counts once
	Octets  uint64 `json:"octets"`  // of them, from the network header on
	Marked  uint64 `json:"marked"`  // had another DSCP before
	Failed  uint64 `json:"failed"`  // header not writable
}

// add adds other counts.
func (c *Counts) add(other Counts) {
	c.Packets += other.Packets
	c.Octets += other.Octets
	c.Marked += other.Marked
	c.Failed += other.Failed
}

// fields declares the values of each scope.
func fields() []module.Field[Counts] {
	return []module.Field[Counts]{
		{Column: module.Column{Name: "packets", Title: "packets", Unit: module.Packets, Kind: module.Counter,
			Help: "Packets sent, at each device that sends them; a super-packet (GSO) counts once.", Metric: "packets_total"},
			Value: module.CountedOf(func(c Counts) uint64 { return c.Packets })},
		{Column: module.Column{Name: "octets", Title: "octets", Unit: module.Octets, Kind: module.Counter,
			Help: "Bytes of these packets from the network header on; a super-packet has one header."},
			Value: module.CountedOf(func(c Counts) uint64 { return c.Octets })},
		{Column: module.Column{Name: "marked", Title: "marked", Unit: module.Packets, Kind: module.Counter,
			Help: "Packets with a changed DSCP; in shadow, packets that would be changed."},
			Value: module.CountedOf(func(c Counts) uint64 { return c.Marked })},
		{Column: module.Column{Name: "failed", Title: "failed", Alarm: true, Unit: module.Packets, Kind: module.Counter,
			Help: "Packets with a header that could not be written."},
			Value: module.CountedOf(func(c Counts) uint64 { return c.Failed })},
	}
}

// Columns declares the values of Report.
func (Module) Columns() module.Columns {
	return module.Columns{Rows: module.ColumnsOf(fields()), Promise: key}
}

// Report returns the counters. A group reports the sum of its members with the same class.
func (p *hostPlane) Report(have module.State) (report module.Report, err error) {
	m, err := openMarker(p.host.Pins)
	if err != nil && !gone(err) {
		return report, err
	}
	var sums map[string]Counts
	if err == nil {
		defer func() { _ = m.close() }()
		same := func(a, b module.Bound) bool { return treatmentOf(a.Scope).raw() == treatmentOf(b.Scope).raw() }
		if sums, err = module.Sums(have, m.counts, (*Counts).add, same); err != nil {
			return report, err
		}
	}
	declared := fields()
	for _, b := range have.Scopes {
		row := module.Row{Scope: b.Name, Promise: treatmentOf(b.Scope).Class}
		if sums != nil {
			row.Values = module.ValuesOf(declared, sums[b.Name])
		}
		report.Rows = append(report.Rows, row)
	}
	return report, nil
}
