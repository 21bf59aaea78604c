// SPDX-License-Identifier: Apache-2.0

package borders

import (
	"fmt"

	"weir/core/module"
	"weir/internal/direction"
	"weir/kernel/bpfmap"
	"weir/kernel/device"
)

// Counts holds the counters of a direction; in shadow, of the hypothetical effect.
type Counts struct {
	Packets    uint64 // of IP; a super-packet (GSO) counts once
	Octets     uint64 // of them, from the network header on
	Marked     uint64 // had another DSCP than their prefix's class
	Translated uint64 // translated to the DSCP of the other network
	Failed     uint64 // header not writable
}

// fields declares the values of each direction.
func fields() []module.Field[Counts] {
	return []module.Field[Counts]{
		{Column: module.Column{Name: "packets", Title: "packets", Unit: module.Packets, Kind: module.Counter,
			Help: "IP packets that crossed the border; a super-packet (GSO) counts once.", Metric: "packets_total"},
			Value: module.CountedOf(func(c Counts) uint64 { return c.Packets })},
		{Column: module.Column{Name: "octets", Title: "octets", Unit: module.Octets, Kind: module.Counter,
			Help: "Bytes of these packets from the network header on; a super-packet has one header."},
			Value: module.CountedOf(func(c Counts) uint64 { return c.Octets })},
		{Column: module.Column{Name: "marked", Title: "marked", Unit: module.Packets, Kind: module.Counter,
			Help: "Packets with a DSCP changed to the class of their prefix; in shadow, packets that would be changed."},
			Value: module.CountedOf(func(c Counts) uint64 { return c.Marked })},
		{Column: module.Column{Name: "translated", Title: "translated", Unit: module.Packets, Kind: module.Counter,
			Help: "Packets with a translated DSCP; in shadow, packets that would be translated."},
			Value: module.CountedOf(func(c Counts) uint64 { return c.Translated })},
		{Column: module.Column{Name: "failed", Title: "failed", Alarm: true, Unit: module.Packets, Kind: module.Counter,
			Help: "Packets with a header that could not be written."},
			Value: module.CountedOf(func(c Counts) uint64 { return c.Failed })},
	}
}

// Columns declares the values of Report: a row for each direction of a border.
func (Module) Columns() module.Columns {
	return module.Columns{Rows: module.ColumnsOf(fields()), Part: "direction", Promise: "class"}
}

// Report returns the counters since the attach.
func (p *hostPlane) Report(have module.State) (report module.Report, err error) {
	for _, item := range have.Host {
		t, ok := item.Treatment.(*Treatment)
		if !ok {
			continue
		}
		counts, err := p.counts(t.Device)
		if err != nil {
			return report, err
		}
		if len(counts) == 0 {
			report.Note = append(report.Note, fmt.Sprintf("borders.%s: the device is not there, or has no programs", t.Device))
		}
		for _, hook := range t.hooks() {
			row := module.Row{Scope: item.Name, Part: parts[hook], Promise: t.promise(hook)}
			if c, known := counts[hook]; known {
				row.Values = module.ValuesOf(fields(), c)
			}
			report.Rows = append(report.Rows, row)
		}
	}
	return report, nil
}

var parts = map[device.Hook]string{device.Ingress: direction.Ingress.String(), device.Egress: direction.Egress.String()}

// promise describes the treatment of a direction.
func (t *Treatment) promise(hook device.Hook) string {
	only := *t
	if hook == device.Egress {
		only.From, only.To = nil, nil
	}
	return only.Summary()
}

// counts returns the counters of the hooks of a device.
func (p *hostPlane) counts(dev string) (map[device.Hook]Counts, error) {
	found, err := p.attached(dev)
	if err != nil {
		return nil, err
	}
	all := map[device.Hook]Counts{}
	for hook, a := range found {
		sum, err := countsOf(a, hook)
		_ = a.Close()
		if err != nil {
			return nil, fmt.Errorf("borders.%s: %w", dev, err)
		}
		all[hook] = sum
	}
	return all, nil
}

func countsOf(a *device.Attachment, hook device.Hook) (sum Counts, err error) {
	counters, err := countersOf(a)
	if err != nil || counters == nil {
		return sum, err
	}
	defer func() { _ = counters.Close() }()
	number := uint32(in)
	if hook == device.Egress {
		number = out
	}
	c, err := bpfmap.Sum[borderBorderCounts](counters, number)
	if err != nil {
		return sum, fmt.Errorf("read border's counters: %w", err)
	}
	return Counts{Packets: c.Packets, Octets: c.Octets, Marked: c.Marked, Translated: c.Translated, Failed: c.Failed}, nil
}
