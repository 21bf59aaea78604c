// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"weir/core/module"
)

// fields declares the values of each scope.
func fields() []module.Field[ioamIoamScopeCounts] {
	packets := func(name, title, help string) module.Column {
		return module.Column{Name: name, Title: title, Help: help, Unit: module.Packets, Kind: module.Counter}
	}
	total := func(c module.Column) module.Column { c.Metric = "packets_total"; return c }
	alarm := func(c module.Column) module.Column { c.Alarm = true; return c }
	return []module.Field[ioamIoamScopeCounts]{
		{Column: total(packets("packets", "packets", "Packets of the scope that left by an interface with the role egress, as sent by the stack.")),
			Value: module.CountedOf(func(c ioamIoamScopeCounts) uint64 { return c.Packets })},
		{Column: module.Column{Name: "octets", Help: "Bytes of these packets, without the link layer.", Unit: module.Octets, Kind: module.Counter},
			Value: module.CountedOf(func(c ioamIoamScopeCounts) uint64 { return c.Octets })},
		{Column: packets("encapsulated", "with IOAM", "Packets with inserted options; in shadow mode, packets that would get them."),
			Value: module.CountedOf(func(c ioamIoamScopeCounts) uint64 { return c.Encapsulated })},
		{Column: alarm(packets("too_long", "too long", "Packets without options, because they would exceed the MTU of the device or path with them.")),
			Value: module.CountedOf(func(c ioamIoamScopeCounts) uint64 { return c.TooLong })},
		{Column: alarm(packets("no_room", "no room", "Packets without options, because an extension header would exceed 2,048 bytes, starts with more than 7 bytes of padding, or is cut off.")),
			Value: module.CountedOf(func(c ioamIoamScopeCounts) uint64 { return c.NoRoom })},
		{Column: alarm(packets("jumbo", "BIG TCP", "Packets without options, because their length exceeds the IPv6 header's field, and the kernel marks them by a header that allows no other options.")),
			Value: module.CountedOf(func(c ioamIoamScopeCounts) uint64 { return c.Jumbo })},
		{Column: packets("unflagged", "", "Packets without options, because the flag Loopback needs a packet of this host without segments and extension headers."),
			Value: module.CountedOf(func(c ioamIoamScopeCounts) uint64 { return c.Unflagged })},
		{Column: alarm(packets("failed", "failed", "Packets without options, because the kernel rejected the change.")),
			Value: module.CountedOf(func(c ioamIoamScopeCounts) uint64 { return c.Failed })},
		{Column: packets("limited", "", "Packets without options, because flagged packets would exceed their part of the slowest interface."),
			Value: module.CountedOf(func(c ioamIoamScopeCounts) uint64 { return c.Limited })},
	}
}

// hostFields are the node's counters.
var hostFields = []struct {
	count      ioamIoamCount
	name, help string
	packets    bool
	drop       bool // packets end here by it
}{
	{ioamIoamCountIOAM_RECORDED, "recorded", "Traces that got this node's data.", false, false},
	{ioamIoamCountIOAM_OVERFLOW, "overflow", "Traces without space for this node's data: the overflow flag was set.", false, false},
	{ioamIoamCountIOAM_FULL, "full", "Traces received with the overflow flag.", false, false},
	{ioamIoamCountIOAM_UNKNOWN, "unknown_namespace", "Options of unknown namespaces, left unchanged.", false, false},
	{ioamIoamCountIOAM_UNSUPPORTED, "unsupported", "Options of unsupported types, left unchanged.", false, false},
	{ioamIoamCountIOAM_REMOVED, "removed", "Packets with options removed here.", true, false},
	{ioamIoamCountIOAM_EXPORTED, "exported", "Records handed to the collector.", false, false},
	{ioamIoamCountIOAM_RING_FULL, "ring_full", "Records lost in the full ring buffer, for lack of a reader.", false, false},
	{ioamIoamCountIOAM_LIMITED, "postcards_limited", "Direct exports omitted by the rate limit.", false, false},
	{ioamIoamCountIOAM_PROVEN, "proven", "Valid proofs of transit.", false, false},
	{ioamIoamCountIOAM_DISPROVEN, "disproven", "Invalid proofs of transit: a node is missing, or the order differs.", false, false},
	{ioamIoamCountIOAM_REPLAYED, "replayed", "Valid proofs of transit that were received before, or are older than 4,096 packets.", false, false},
	{ioamIoamCountIOAM_UNPROVEN, "unproven_dropped", "Packets dropped without a valid proof.", true, true},
	{ioamIoamCountIOAM_LOOPED, "looped", "Copies sent back to the source, for packets with the loopback flag.", true, false},
	{ioamIoamCountIOAM_LOOP_LIMITED, "loop_limited", "Copies not sent back, because they would exceed their part of the slowest interface.", true, false},
	{ioamIoamCountIOAM_RETURNED, "returned", "Returned copies of this node's packets, consumed here.", true, true},
	{ioamIoamCountIOAM_ACTIVE, "active", "Traces with the flag Active.", false, false},
	{ioamIoamCountIOAM_TERMINATED, "terminated", "Packets with the flag Active, dropped at the end of their options.", true, true},
	{ioamIoamCountIOAM_EDGES, "edges", "Edge-to-edge options that ended here.", false, false},
	{ioamIoamCountIOAM_CONTEXT, "trace_contexts", "HTTP requests with a W3C trace context.", false, false},
	{ioamIoamCountIOAM_CARRIED, "socket_contexts", "Packets with the W3C trace context of their socket.", true, false},
	{ioamIoamCountIOAM_FROM_OUTSIDE, "from_outside", "Packets with IOAM dropped on arrival at an interface without the role ingress.", true, true},
	{ioamIoamCountIOAM_TO_OUTSIDE, "to_outside", "Packets with IOAM dropped before they left by an interface without the role egress.", true, true},
	{ioamIoamCountIOAM_ERROR_CLEARED, "errors_cleared", "ICMPv6 errors to the outside with IOAM cleared from the quoted packet.", true, false},
	{ioamIoamCountIOAM_HEADER, "bad_header", "Packets dropped: an extension header is truncated.", true, true},
	{ioamIoamCountIOAM_OPTION, "bad_option", "Packets dropped: an option ends behind its header.", true, true},
	{ioamIoamCountIOAM_PADDING, "bad_padding", "Packets dropped: more than 7 octets of padding in a row.", true, true},
	{ioamIoamCountIOAM_SHORT, "bad_short", "Packets dropped: an option is too short for its type.", true, true},
	{ioamIoamCountIOAM_ODD, "bad_words", "Packets dropped: the length of a trace is no multiple of 4 octets.", true, true},
	{ioamIoamCountIOAM_ALIGNMENT, "bad_alignment", "Packets dropped: an option is not at a multiple of 4 octets.", true, true},
	{ioamIoamCountIOAM_NODE_LENGTH, "bad_node_length", "Packets dropped: a trace's NodeLen contradicts its type.", true, true},
	{ioamIoamCountIOAM_REMAINING, "bad_remaining", "Packets dropped: a trace's RemainingLen exceeds it.", true, true},
	{ioamIoamCountIOAM_SEQUENCES, "bad_sequences", "Packets dropped: an edge-to-edge option with two sequence numbers.", true, true},
	{ioamIoamCountIOAM_FIELDS, "bad_fields", "Packets dropped: an option's fields contradict its flags.", true, true},
	{ioamIoamCountIOAM_MANY, "bad_many", "Packets dropped: options or header length exceed the parser's limits.", true, true},
	{ioamIoamCountIOAM_FAILED, "node_failed", "Packets for which the kernel rejected a change.", true, true},
}

// Columns declares the values of a plane's Report.
func Columns() module.Columns {
	c := module.Columns{Rows: module.ColumnsOf(fields()), Promise: "options"}
	for _, f := range hostFields {
		unit := module.Events
		if f.packets {
			unit = module.Packets
		}
		c.Host = append(c.Host, module.Column{Name: f.name, Help: f.help, Unit: unit, Kind: module.Counter})
	}
	return c
}

// Report returns the counters.
func (p *hostPlane) Report(have module.State) (report module.Report, err error) {
	d, err := open(p.ns, p.host.Pins)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return report, err
	}
	loaded := err == nil
	if loaded {
		defer func() { _ = d.close() }()
		if report.Host, err = d.hostValues(); err != nil {
			return report, err
		}
	}
	declared := fields()
	for _, b := range have.Scopes {
		row := module.Row{Scope: b.Name, Promise: EncapsulationOf(b.Scope).Sampling.String()}
		if loaded {
			counts, err := d.scopeCounts(uint32(b.Index))
			if err != nil {
				return report, err
			}
			row.Values = module.ValuesOf(declared, counts)
		}
		report.Rows = append(report.Rows, row)
	}
	report.Note = append(sentence(report.Host), p.PlanNotes(have)...)
	return report, nil
}

// sentence describes the counters of the node; nothing if they are 0.
func sentence(values []module.Value) []string {
	var did []string
	for i, f := range hostFields[:len(values)] {
		if n := values[i].Count; n > 0 {
			did = append(did, fmt.Sprintf("%s %d", strings.ReplaceAll(f.name, "_", " "), n))
		}
	}
	if len(did) == 0 {
		return nil
	}
	return []string{"ioam: the node has counted: " + strings.Join(did, ", ")}
}

func (d *dataPlane) hostValues() ([]module.Value, error) {
	counts, err := d.nodeCounts()
	if err != nil {
		return nil, err
	}
	values := make([]module.Value, len(hostFields))
	for i, f := range hostFields {
		values[i] = module.Counted(counts[f.count])
	}
	return values, nil
}
