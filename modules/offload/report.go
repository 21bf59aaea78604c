// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"weir/core/module"
	"weir/modules/offload/plan"
	"weir/modules/offload/sample"
	"weir/modules/offload/xdp"
)

// seen holds the values of a report.
type seen struct {
	counts xdp.Counts
	lease  float64 // seconds
	memory uint64
	ports  int
	rules  *rules // of filters; nil for programs
	leased bool
	chosen *plan.Chosen // by a budget; nil without one
}

// rules counts filters.
type rules struct{ all, hardware, unasked int }

func counter(name, help string, unit module.Unit, value func(seen) uint64) module.Field[seen] {
	return module.Field[seen]{Column: module.Column{Name: name, Help: help, Unit: unit, Kind: module.Counter, Metric: name + "_total"},
		Value: func(s seen) module.Value { return module.Counted(value(s)) }}
}

// left describes the reasons for leaving packets to the kernel, in the order of xdp.Reasons.
var left = []string{
	"Packets left to the kernel: no IP, for another host, or on a link outside the policy.",
	"Packets left to the kernel after the end of the lease, without a running daemon.",
	"Packets left to the kernel for options, extension headers, wrong lengths or checksums.",
	"Packets left to the kernel with a TTL or hop limit of at most 1.",
	"Packets left to the kernel for their source: reverse-path filter, own or invalid address.",
	"Packets left to the kernel for their destination: no offloaded route.",
	"Packets left to the kernel that are longer than the MTU.",
	"Packets left to the kernel with the same input and output link.",
	"Packets left to the kernel with a possibly unfinished checksum of a sender in another namespace.",
}

// reasonWords are the reasons in status, in the order of xdp.Reasons.
var reasonWords = []string{"not IP, for another host, or outside the policy", "lease expired", "options, extension headers or errors in headers", "TTL expired",
	"source address", "no offloaded route to the destination", "longer than the MTU", "same input and output link", "unfinished checksum"}

// fields declares the values of the host.
func fields() []module.Field[seen] {
	all := []module.Field[seen]{
		counter("forwarded_packets", "Packets forwarded by the fast path.", module.Packets, func(s seen) uint64 { return s.counts.Forwarded.Packets }),
		counter("forwarded_octets", "Octets of received frames forwarded by the fast path.", module.Octets, func(s seen) uint64 { return s.counts.Forwarded.Octets }),
	}
	for i, name := range xdp.Reasons {
		field := counter("left_"+name+"_packets", left[i], module.Packets, func(s seen) uint64 { return s.counts.Left[i].Packets })
		value := field.Value
		field.Value = func(s seen) module.Value { return known(s.rules == nil, value(s)) }
		all = append(all, field)
	}
	return append(all,
		module.Field[seen]{Column: module.Column{Name: "lease", Help: "Rest of the lease of the fast path; below 0 the kernel gets all packets.", Unit: module.Seconds, Kind: module.Gauge, Metric: "lease_seconds"},
			Value: func(s seen) module.Value { return known(s.leased, module.Measured(s.lease)) }},
		module.Field[seen]{Column: module.Column{Name: "memory", Help: "Memory of the fast path's table.", Unit: module.Octets, Kind: module.Gauge, Metric: "memory_bytes"},
			Value: func(s seen) module.Value { return known(s.rules == nil, module.Measured(float64(s.memory))) }},
		module.Field[seen]{Column: module.Column{Name: "ports", Help: "Devices with the program, or with rules.", Unit: module.Events, Kind: module.Gauge},
			Value: func(s seen) module.Value { return module.Measured(float64(s.ports)) }},
		ofChoice("budget", "Maximum number of prefixes of the table.", module.Events, func(c plan.Chosen) float64 { return float64(c.Budget) }),
		ofChoice("budget_used", "Prefixes of the table at the last selection, before aggregation.", module.Events, func(c plan.Chosen) float64 { return float64(c.Rules) }),
		ofChoice("routes_chosen", "Routes selected for the budget.", module.Events, func(c plan.Chosen) float64 { return float64(c.Chosen) }),
		ofChoice("routes_to_choose", "Routes that a fast path can forward.", module.Events, func(c plan.Chosen) float64 { return float64(c.Routes) }),
		ofChoice("traffic_chosen_ratio", "Share of sampled packets to selected routes.", module.Events, plan.Chosen.Share),
		ofRules("rules", "Rules of tc flower.", false, func(r rules) int { return r.all }),
		ofRules("rules_in_hardware", "Rules in the NIC (in_hw).", false, func(r rules) int { return r.hardware }),
		ofRules("rules_not_in_hardware", "Rules that the policy requires in the NIC but that are not there.", true,
			func(r rules) int { return r.unasked }))
}

// known returns an empty value unless there is one.
func known(is bool, v module.Value) module.Value {
	if !is {
		return module.Value{}
	}
	return v
}

func ofChoice(name, help string, unit module.Unit, value func(plan.Chosen) float64) module.Field[seen] {
	return module.Field[seen]{Column: module.Column{Name: name, Help: help, Unit: unit, Kind: module.Gauge}, Value: func(s seen) module.Value {
		if s.chosen == nil {
			return module.Value{}
		}
		return module.Measured(value(*s.chosen))
	}}
}

// choose reads the selection for a budget.
func (s *seen) choose(t *Treatment, from sample.Sampler) (note []string, err error) {
	if t.Budget == 0 || !from.On() {
		return nil, nil
	}
	c, err := from.Choice()
	if err != nil {
		return nil, err
	}
	s.chosen = &c
	return []string{fmt.Sprintf("offload: %d of %d routes are selected, with %d of %d prefixes: %.1f %% of %d sampled packets",
		c.Chosen, c.Routes, c.Rules, c.Budget, 100*c.Share(), c.Traffic)}, nil
}

func ofRules(name, help string, alarm bool, value func(rules) int) module.Field[seen] {
	return module.Field[seen]{Column: module.Column{Name: name, Help: help, Unit: module.Events, Kind: module.Gauge, Alarm: alarm}, Value: func(s seen) module.Value {
		if s.rules == nil {
			return module.Value{}
		}
		return module.Measured(float64(value(*s.rules)))
	}}
}

// Columns declares the values of Report.
func (Module) Columns() module.Columns { return module.Columns{Host: module.ColumnsOf(fields())} }

// Report returns the counters of the fast path since the policy became active.
func (p *hostPlane) Report(have module.State) (report module.Report, err error) {
	t := treatmentOf(have)
	if t == nil {
		return report, nil
	}
	if t.filters() {
		return p.reportFilters(t)
	}
	pinned, err := xdp.Open(p.host.Pins)
	if errors.Is(err, xdp.ErrNone) {
		return module.Report{Note: []string{"offload: no fast path is active: the kernel forwards all packets"}}, nil
	}
	if err != nil {
		return report, err
	}
	defer pinned.Close()
	var s seen
	if s.counts, err = pinned.Counts(); err != nil {
		return report, err
	}
	lease, err := pinned.Lease()
	if err != nil {
		return report, err
	}
	attached, err := pinned.Attached()
	if err != nil {
		return report, err
	}
	s.lease, s.leased, s.memory, s.ports = lease.Seconds(), true, pinned.Memory(), len(attached)
	note, err := s.choose(t, pinned.Samples)
	if err != nil {
		return report, err
	}
	report.Host = module.ValuesOf(fields(), s)
	total := s.counts.Forwarded.Packets
	for _, c := range s.counts.Left {
		total += c.Packets
	}
	report.Note = append(report.Note, fmt.Sprintf("offload: %d of %d packets were forwarded by XDP at %d ports", s.counts.Forwarded.Packets, total, s.ports))
	report.Note = append(report.Note, note...)
	left, err := p.leftOutNow(t)
	if err != nil {
		return report, err
	}
	report.Note = append(report.Note, left...)
	if why := reasons(s.counts); why != "" {
		report.Note = append(report.Note, "offload: left to the kernel: "+why)
	}
	if lease < 0 {
		report.Note = append(report.Note, "offload: the lease has expired without a daemon: the kernel forwards all packets; run weir daemon")
	}
	return report, nil
}

// reasons lists the reasons for leaving packets to the kernel, in descending order of packets.
func reasons(c xdp.Counts) string {
	order := make([]int, len(c.Left))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(c.Left[b].Packets, c.Left[a].Packets) })
	var all []string
	for _, i := range order {
		if n := c.Left[i].Packets; n > 0 {
			all = append(all, fmt.Sprintf("%s %d", reasonWords[i], n))
		}
	}
	return strings.Join(all, ", ")
}
