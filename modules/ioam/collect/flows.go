// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"
)

// FlowTraces aggregates packets to one trace per flow, path and application span in each interval.
// Its spans have the median times, from the reception of the first packet on; attributes of a hop
// are the number of packets, minimum, median and maximum. It is safe for concurrent use.
type FlowTraces struct {
	Every time.Duration // the interval
	lock  sync.Mutex    // guards the rest
	flows map[string]*flowTrace
	spans map[string]int // application spans by flow
	order []*flowTrace
	key   []byte
}

// MaxFlowTraces is the maximum number of traces at a time, and MaxFlowSpans that of application
// spans per flow; further packets count for the flow alone, so that one flow cannot occupy all
// places. A median is exact for up to flowSamples packets, and that of a random sample above.
const (
	MaxFlowTraces = 4096
	MaxFlowSpans  = 16
	flowSamples   = 127
	flowOctets    = 16 + 16 + 1 + 2 + 2 // bytes of the key that identify the flow
)

// flowTrace is a flow on one path, for one span of an application or none.
type flowTrace struct {
	first           Record // first packet
	last            int64  // time of the last packet
	packets, octets uint64
	proven, not     uint64
	whole           distribution
	hops            []flowHop
}

type flowHop struct {
	toNext, delay, queue distribution
	backwards            uint64 // packets that the next node received earlier, by their clocks
}

// distribution holds count, minimum, maximum and a sample of a value. The zero value is empty.
type distribution struct {
	count    uint64
	min, max int64
	sample   []int64
}

func (s *distribution) add(v int64) {
	if s.count == 0 || v < s.min {
		s.min = v
	}
	if s.count == 0 || v > s.max {
		s.max = v
	}
	s.count++
	if len(s.sample) < flowSamples {
		s.sample = append(s.sample, v)
	} else if at := rand.Uint64N(s.count); at < flowSamples {
		s.sample[at] = v
	}
}

// median returns the lower median.
func (s *distribution) median() int64 {
	if len(s.sample) == 0 {
		return 0
	}
	slices.Sort(s.sample)
	return s.sample[(len(s.sample)-1)/2]
}

func (s *distribution) attributes(key string) []attribute {
	if s.count == 0 {
		return nil
	}
	return []attribute{whole(key+".count", s.count), whole(key+".min", s.min), whole(key+".median", s.median()), whole(key+".max", s.max)}
}

// add counts a packet; false means no capacity for its flow.
func (f *FlowTraces) add(r *Record) bool {
	if len(r.Traces) == 0 || r.Export != nil || !slices.ContainsFunc(r.Traces[0].Hops, func(h Hop) bool { return h.Received.Known }) {
		return true
	}
	f.lock.Lock()
	defer f.lock.Unlock()
	f.key = r.flowKey(f.key[:0])
	t := f.flows[string(f.key)]
	if t == nil && r.Context.Sampled() && f.spans[string(f.key[:flowOctets])] == MaxFlowSpans {
		alone := *r
		alone.Context = TraceContext{}
		r = &alone
		f.key = r.flowKey(f.key[:0])
		t = f.flows[string(f.key)]
	}
	if t == nil {
		if len(f.flows) == MaxFlowTraces {
			return false
		}
		if f.flows == nil {
			f.flows, f.spans = map[string]*flowTrace{}, map[string]int{}
		}
		if r.Context.Sampled() {
			f.spans[string(f.key[:flowOctets])]++
		}
		t = &flowTrace{first: *r, hops: make([]flowHop, len(r.Traces[0].Hops))}
		f.flows[string(f.key)] = t
		f.order = append(f.order, t)
	}
	t.add(r)
	return true
}

// flowKey appends a key of flow, path and application span.
func (r *Record) flowKey(key []byte) []byte {
	from, to := r.Flow.Source.As16(), r.Flow.Destination.As16()
	key = append(append(append(key, from[:]...), to[:]...), r.Flow.Protocol)
	key = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(key, r.Flow.SourcePort), r.Flow.DestinationPort)
	if c := r.Context; c.Sampled() {
		key = append(append(append(key, c.Trace[:]...), c.Parent[:]...), c.Flags)
	}
	return r.Traces[0].pathKey(key)
}

func (t *flowTrace) add(r *Record) {
	t.last = r.Time
	t.packets++
	t.octets += uint64(r.Length)
	switch r.Proof {
	case "holds":
		t.proven++
	case "does not hold", "replayed":
		t.not++
	}
	began := false
	hops := r.Traces[0].Hops
	for i := range hops {
		h, to := &hops[i], &t.hops[i]
		if h.Delay.Known {
			to.delay.add(h.Delay.Value)
		}
		if h.Queue.Known {
			to.queue.add(int64(h.Queue.Value))
		}
		if !h.Received.Known {
			continue
		}
		if !began {
			began = true
			t.whole.add(max(r.Time-h.Received.Value, 0))
		}
		if took := r.until(i) - h.Received.Value; took >= 0 {
			to.toNext.add(took)
		} else {
			to.backwards++
		}
	}
}

// until returns the time when a packet reached the next node, or its trace ended.
func (r *Record) until(hop int) int64 {
	if hops := r.Traces[0].Hops; hop+1 < len(hops) && hops[hop+1].Received.Known {
		return hops[hop+1].Received.Value
	}
	return r.Time
}

// take ends the interval and returns its traces; none for a nil receiver.
func (f *FlowTraces) take() (all [][]span) {
	if f == nil {
		return nil
	}
	f.lock.Lock()
	order := f.order
	f.flows, f.spans, f.order = nil, nil, nil
	f.lock.Unlock()
	for _, t := range order {
		all = append(all, t.spans())
	}
	return all
}

func (t *flowTrace) spans() []span {
	r := &t.first
	trace, parent, flags := r.identify()
	root := span{TraceID: trace, SpanID: newID(8), ParentID: parent, Flags: flags, Name: r.Flow.String(), Kind: kindInternal, Attributes: t.attributes()}
	hops := r.Traces[0].Hops
	begin := hops[slices.IndexFunc(hops, func(h Hop) bool { return h.Received.Known })].Received.Value
	at := begin
	all := []span{{}}
	for i := range hops {
		h := &t.hops[i]
		if h.toNext.count+h.backwards == 0 {
			continue // no time known
		}
		until := at + h.toNext.median()
		all = append(all, span{TraceID: trace, SpanID: newID(8), ParentID: root.SpanID, Name: fmt.Sprintf("node %d", hops[i].Node), Kind: kindInternal,
			Start: strconv.FormatInt(at, 10), End: strconv.FormatInt(until, 10), Attributes: h.attributes(&hops[i])})
		at = until
	}
	root.Start, root.End = strconv.FormatInt(begin, 10), strconv.FormatInt(max(at, begin+t.whole.median()), 10)
	all[0] = root
	return all
}

func (t *flowTrace) attributes() []attribute {
	r := &t.first
	all := append(r.Flow.attributes(), whole("ioam.namespace", r.Traces[0].Namespace), whole("ioam.packets", t.packets), whole("ioam.octets", t.octets),
		whole("ioam.interval_ns", max(t.last-r.Time, 0)))
	if t.proven > 0 {
		all = append(all, whole("ioam.proof.holds", t.proven))
	}
	if t.not > 0 {
		all = append(all, whole("ioam.proof.does_not_hold", t.not))
	}
	return append(all, t.whole.attributes("ioam.path_ns")...)
}

func (h *flowHop) attributes(of *Hop) []attribute {
	all := []attribute{whole("ioam.node", of.Node)}
	if of.Ingress.Known {
		all = append(all, whole("ioam.ingress", of.Ingress.Value))
	}
	if of.Egress.Known {
		all = append(all, whole("ioam.egress", of.Egress.Value))
	}
	all = append(all, h.toNext.attributes("ioam.to_next_ns")...)
	all = append(all, h.delay.attributes("ioam.delay_ns")...)
	all = append(all, h.queue.attributes("ioam.queue")...)
	if h.backwards > 0 {
		all = append(all, whole("ioam.backwards", h.backwards))
	}
	return all
}
