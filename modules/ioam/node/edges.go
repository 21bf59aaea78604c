// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path/filepath"
	"slices"

	"github.com/cilium/ebpf"

	"weir/internal/fault"
	"weir/modules/ioam/collect"
)

// Edge is a flow with edge-to-edge options that end here. Delays are in ns, and 0 without times.
type Edge struct {
	Flow      collect.Flow `json:"flow"`
	Namespace uint16       `json:"namespace"`
	Packets   uint64       `json:"packets"`
	Lost      uint64       `json:"lost"` // missing sequence numbers, except late packets
	Reordered uint64       `json:"reordered"`
	Restarts  uint64       `json:"restarts"` // of the sender's numbers
	Mean      int64        `json:"delay_mean_ns"`
	Min       int64        `json:"delay_min_ns"`
	Max       int64        `json:"delay_max_ns"`
	Last      int64        `json:"last_ns"` // since 1970

	numbers, stamped uint64 // packets by sequence number, and packets with times
	delay            int64  // sum over packets with times
}

// Totals returns the totals for exporters.
func (e *Edge) Totals() collect.EdgeTotals {
	return collect.EdgeTotals{Flow: e.Flow, Namespace: e.Namespace, Packets: e.Packets, Lost: e.Lost, Reordered: e.Reordered,
		Stamped: e.stamped, Delay: e.delay, Min: e.Min, Max: e.Max}
}

// EdgesSince returns the active flows since an earlier reading. Min and Max cover their whole
// lifetime. If a sender restarts its numbers, counting restarts there.
func EdgesSince(before, now []Edge) (since []Edge) {
	type id struct {
		flow      collect.Flow
		namespace uint16
	}
	earlier := map[id]Edge{}
	for _, e := range before {
		earlier[id{e.Flow, e.Namespace}] = e
	}
	for _, e := range now {
		if b, known := earlier[id{e.Flow, e.Namespace}]; known && b.Restarts == e.Restarts && b.Packets <= e.Packets {
			e.Packets, e.Reordered, e.Restarts = e.Packets-b.Packets, e.Reordered-b.Reordered, 0
			e.numbers, e.stamped, e.delay = e.numbers-b.numbers, e.stamped-b.stamped, e.delay-b.delay
			e = e.derived()
		}
		if e.Packets > 0 {
			since = append(since, e)
		}
	}
	return since
}

// derived fills in the values that follow from the counts.
func (e Edge) derived() Edge {
	e.Lost, e.Mean = 0, 0
	if e.numbers > e.Packets {
		e.Lost = e.numbers - e.Packets
	}
	if e.stamped > 0 {
		e.Mean = e.delay / int64(e.stamped)
	}
	return e
}

// Edges returns the flows of the active policy by packets. The policy limits their number; the
// longest idle ones are evicted first.
func Edges(pins string) ([]Edge, error) {
	m, err := ebpf.LoadPinnedMap(filepath.Join(pins, mapPin(ioamMapIoamEdgesReceived)), nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.Usage, "apply one with a section ioam: weir apply POLICY", "no policy with IOAM is active")
	}
	if err != nil {
		return nil, programNeeds.Fault("open edges", err)
	}
	defer func() { _ = m.Close() }()
	return edgesIn(m)
}

// edgesIn returns the flows of a map.
func edgesIn(m *ebpf.Map) ([]Edge, error) {
	var k ioamIoamEdgeKey
	var v ioamIoamEdgeReceived
	edges := []Edge{}
	all := m.Iterate()
	for all.Next(&k, &v) {
		edges = append(edges, edgeOf(k, v))
	}
	if err := all.Err(); err != nil && !errors.Is(err, ebpf.ErrIterationAborted) {
		return nil, fmt.Errorf("read edges: %w", err)
	}
	slices.SortFunc(edges, func(a, b Edge) int {
		if a.Packets != b.Packets {
			return cmp.Compare(b.Packets, a.Packets)
		}
		return a.Flow.Source.Compare(b.Flow.Source)
	})
	return edges, nil
}

func edgeOf(k ioamIoamEdgeKey, v ioamIoamEdgeReceived) Edge {
	e := Edge{Flow: collect.Flow{Source: netip.AddrFrom16(k.Source), Destination: netip.AddrFrom16(k.Destination),
		SourcePort: k.SourcePort, DestinationPort: k.DestinationPort, Protocol: k.Protocol},
		Namespace: k.Namespace, Packets: v.Packets, Reordered: v.Reordered, Restarts: v.Restarts, Min: v.DelayMin, Max: v.DelayMax, Last: int64(v.Last),
		numbers: v.Highest - v.First + 1, stamped: v.Stamped, delay: v.Delay}
	return e.derived()
}
