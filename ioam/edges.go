// SPDX-License-Identifier: Apache-2.0

package ioam

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
	"weir/ioam/collect"
)

// Edge is a flow whose edge-to-edge options end here. Delays are in nanoseconds, and 0 without
// times.
type Edge struct {
	Flow      collect.Flow `json:"flow"`
	Namespace uint16       `json:"namespace"`
	Packets   uint64       `json:"packets"`
	Lost      uint64       `json:"lost"` // what is missing of the numbers; late ones are not
	Reordered uint64       `json:"reordered"`
	Restarts  uint64       `json:"restarts"` // of the sender's numbers
	Mean      int64        `json:"delay_mean_ns"`
	Least     int64        `json:"delay_min_ns"`
	Most      int64        `json:"delay_max_ns"`
	Last      int64        `json:"last_ns"` // since 1970
}

// Edges are the flows of the policy in force, those with the most packets first. As many are kept
// as the policy says; the ones that were quiet for the longest go first.
func Edges(pins string) ([]Edge, error) {
	m, err := ebpf.LoadPinnedMap(filepath.Join(pins, mapPin(ioamMapIoamEdgesReceived)), nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.Usage, "apply one with a section ioam: weir apply POLICY", "no policy with IOAM is in force")
	}
	if err != nil {
		return nil, refused("open edges", err)
	}
	defer func() { _ = m.Close() }()
	return edgesIn(m)
}

// edgesIn are the flows of a map.
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
		Namespace: k.Namespace, Packets: v.Packets, Reordered: v.Reordered, Restarts: v.Restarts, Least: v.Shortest, Most: v.Longest, Last: int64(v.Last)}
	if sent := v.Highest - v.First + 1; sent > v.Packets {
		e.Lost = sent - v.Packets
	}
	if v.Stamped > 0 {
		e.Mean = v.Delay / int64(v.Stamped)
	}
	return e
}
