// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/record/hist"
)

// Limits of stored entries; excess ones are counted.
const (
	MaxPaths = 4096
	MaxFlows = 65536
)

// Summary adds records up into flows and paths. The zero value is ready to use. It is not safe for
// concurrent use.
type Summary struct {
	Packets  uint64 // with and without traces
	Overflow uint64 // traces without space for a node
	Proven   uint64
	Not      uint64 // invalid proofs
	Beyond   uint64 // without capacity for their flow or path
	flows    map[Flow]*FlowStats
	paths    map[string]*Path
	key      []byte
}

// FlowStats holds the statistics of one flow.
type FlowStats struct {
	Flow    Flow
	Packets uint64
	Octets  uint64
	First   int64
	Last    int64
	Path    *Path  // of its last packet; nil without a trace
	Changes uint64 // of the path
}

// Path is a sequence of nodes and interfaces, in one namespace.
type Path struct {
	Namespace uint16
	Packets   uint64
	Whole     hist.Histogram // ns from the first node's reception to the last one's
	Hops      []HopStats
}

// HopStats holds the statistics of a node on a path. Missing values have no count.
type HopStats struct {
	Node    uint64
	Ingress Optional[uint32]
	Egress  Optional[uint32]
	// Delay is the time in the node, Link the time from one node's reception to the next one's. In
	// ns.
	Delay, Link hist.Histogram
	Queue       hist.Histogram // in bytes, or in the unit of the node
	Backwards   uint64         // packets that the next node received earlier, by their clocks
}

// Add counts a record.
func (s *Summary) Add(r *Record) {
	s.Packets++
	switch r.Proof {
	case "holds":
		s.Proven++
	case "does not hold", "replayed":
		s.Not++
	}
	flow := s.flow(r)
	for i := range r.Traces {
		t := &r.Traces[i]
		if t.Overflow {
			s.Overflow++
		}
		if len(t.Hops) == 0 || r.Export != nil {
			continue
		}
		path := s.path(t)
		if path == nil {
			continue
		}
		path.add(t)
		if flow == nil {
			continue
		}
		if flow.Path != nil && flow.Path != path && i == 0 {
			flow.Changes++
		}
		if i == 0 {
			flow.Path = path
		}
	}
}

func (s *Summary) flow(r *Record) *FlowStats {
	f := s.flows[r.Flow]
	if f == nil {
		if len(s.flows) == MaxFlows {
			s.Beyond++
			return nil
		}
		if s.flows == nil {
			s.flows = map[Flow]*FlowStats{}
		}
		f = &FlowStats{Flow: r.Flow, First: r.Time}
		s.flows[r.Flow] = f
	}
	f.Packets++
	f.Octets += uint64(r.Length)
	f.Last = r.Time
	return f
}

// path returns the path of a trace.
func (s *Summary) path(t *Trace) *Path {
	key := t.pathKey(s.key[:0])
	s.key = key
	if p := s.paths[string(key)]; p != nil {
		return p
	}
	if len(s.paths) == MaxPaths {
		s.Beyond++
		return nil
	}
	if s.paths == nil {
		s.paths = map[string]*Path{}
	}
	p := &Path{Namespace: t.Namespace, Hops: make([]HopStats, len(t.Hops))}
	for i := range t.Hops {
		p.Hops[i].Node, p.Hops[i].Ingress, p.Hops[i].Egress = t.Hops[i].Node, t.Hops[i].Ingress, t.Hops[i].Egress
	}
	s.paths[string(key)] = p
	return p
}

// pathKey appends a key of the path.
func (t *Trace) pathKey(key []byte) []byte {
	key = binary.BigEndian.AppendUint16(key, t.Namespace)
	for i := range t.Hops {
		h := &t.Hops[i]
		key = binary.BigEndian.AppendUint64(key, h.Node)
		key = appendID(appendID(key, h.Ingress), h.Egress)
	}
	return key
}

func appendID(key []byte, id Optional[uint32]) []byte {
	if !id.Known {
		return append(key, 0)
	}
	return binary.BigEndian.AppendUint32(append(key, 1), id.Value)
}

func (p *Path) add(t *Trace) {
	p.Packets++
	first, last := t.Hops[0].Received, t.Hops[len(t.Hops)-1].Received
	if len(t.Hops) > 1 && first.Known && last.Known && last.Value >= first.Value {
		p.Whole.Record(uint64(last.Value - first.Value))
	}
	for i := range t.Hops {
		h, to := &t.Hops[i], &p.Hops[i]
		if h.Delay.Known {
			to.Delay.Record(uint64(h.Delay.Value))
		}
		if h.Queue.Known {
			to.Queue.Record(uint64(h.Queue.Value))
		}
		if i == len(t.Hops)-1 || !h.Received.Known || !t.Hops[i+1].Received.Known {
			continue
		}
		if took := t.Hops[i+1].Received.Value - h.Received.Value; took >= 0 {
			to.Link.Record(uint64(took))
		} else {
			to.Backwards++
		}
	}
}

// String lists the nodes of the path between the ids of ingress and egress interfaces, if one is
// known: "10:1:11 > 20:2:- > 3". Paths of a namespace have distinct names.
func (p *Path) String() string {
	names := make([]string, len(p.Hops))
	for i := range p.Hops {
		h := &p.Hops[i]
		names[i] = fmt.Sprint(h.Node)
		if h.Ingress.Known || h.Egress.Known {
			names[i] = h.Ingress.text() + ":" + names[i] + ":" + h.Egress.text()
		}
	}
	return strings.Join(names, " > ")
}

// Flows returns all flows by bytes, largest first.
func (s *Summary) Flows() []*FlowStats {
	all := make([]*FlowStats, 0, len(s.flows))
	for _, f := range s.flows {
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b *FlowStats) int {
		if a.Octets != b.Octets {
			return -compare(a.Octets, b.Octets)
		}
		return compare(uint64(a.First), uint64(b.First))
	})
	return all
}

// Paths returns all paths by packets, largest first.
func (s *Summary) Paths() []*Path {
	all := make([]*Path, 0, len(s.paths))
	for _, p := range s.paths {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *Path) int {
		if a.Packets != b.Packets {
			return -compare(a.Packets, b.Packets)
		}
		return slices.CompareFunc(a.Hops, b.Hops, func(x, y HopStats) int { return compare(x.Node, y.Node) })
	})
	return all
}

func compare(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// Duration converts a histogram value.
func Duration(ns uint64) time.Duration { return time.Duration(min(ns, 1<<62)) }
