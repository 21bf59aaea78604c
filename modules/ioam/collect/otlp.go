// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// OTLP sends traces to an OpenTelemetry collector over HTTP as JSON (OTLP 1.x): one trace per
// packet, with a span for the packet and one per hop. If an application traces the request, the
// spans are in its trace, under its span. With Flows it sends one trace per flow and interval.
// Records beyond Queue, and of flows beyond MaxFlowTraces, are dropped and counted. Add is not safe
// for concurrent use; Run sends.
type OTLP struct {
	URL     string // for traces: http://host:4318/v1/traces
	Host    string // service.instance.id
	Client  *http.Client
	Flows   *FlowTraces // nil: one trace per packet
	queue   chan []span
	Dropped uint64
}

// Queue is the maximum number of waiting packets, Batch the number per send.
const (
	Queue = 4096
	Batch = 512
)

// NewOTLP returns an OTLP that sends to a URL.
func NewOTLP(url, host string) *OTLP {
	return &OTLP{URL: url, Host: host, Client: &http.Client{Timeout: 10 * time.Second}, queue: make(chan []span, Queue)}
}

// Spans in the JSON form of OTLP: identifiers in hexadecimal.
type (
	span struct {
		TraceID    string      `json:"traceId"`
		SpanID     string      `json:"spanId"`
		ParentID   string      `json:"parentSpanId,omitempty"`
		Name       string      `json:"name"`
		Flags      uint32      `json:"flags,omitempty"`
		Kind       int         `json:"kind"`
		Start      string      `json:"startTimeUnixNano"`
		End        string      `json:"endTimeUnixNano"`
		Attributes []attribute `json:"attributes"`
	}
	scopeSpans struct {
		Scope named  `json:"scope"`
		Spans []span `json:"spans"`
	}
	resourceSpans struct {
		Resource   resource     `json:"resource"`
		ScopeSpans []scopeSpans `json:"scopeSpans"`
	}
	exportRequest struct {
		ResourceSpans []resourceSpans `json:"resourceSpans"`
	}
)

const kindInternal = 1

func newID(octets int) string {
	b := make([]byte, octets)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// spansOf returns the spans of one packet; none if no hop has a time.
func spansOf(r *Record) []span {
	if len(r.Traces) == 0 || r.Export != nil {
		return nil
	}
	t := &r.Traces[0]
	trace, parent, flags := r.identify()
	root := newID(8)
	end := r.Time
	var all []span
	for i := range t.Hops {
		h := &t.Hops[i]
		if !h.Received.Known {
			continue
		}
		until := end
		if i+1 < len(t.Hops) && t.Hops[i+1].Received.Known {
			until = t.Hops[i+1].Received.Value
		}
		s := span{TraceID: trace, SpanID: newID(8), ParentID: root, Name: fmt.Sprintf("node %d", h.Node), Kind: kindInternal,
			Start: strconv.FormatInt(h.Received.Value, 10), End: strconv.FormatInt(max(until, h.Received.Value), 10), Attributes: h.attributes()}
		all = append(all, s)
	}
	if len(all) == 0 {
		return nil
	}
	whole := span{TraceID: trace, SpanID: root, ParentID: parent, Flags: flags, Name: r.Flow.String(), Kind: kindInternal, Start: all[0].Start, End: strconv.FormatInt(end, 10), Attributes: r.attributes(t)}
	return append([]span{whole}, all...)
}

func (h *Hop) attributes() []attribute {
	all := []attribute{whole("ioam.node", h.Node), whole("ioam.hop_limit", uint32(h.HopLimit))}
	for key, v := range map[string]Optional[uint32]{"ioam.ingress": h.Ingress, "ioam.egress": h.Egress, "ioam.queue": h.Queue} {
		if v.Known {
			all = append(all, whole(key, v.Value))
		}
	}
	if h.Delay.Known {
		all = append(all, whole("ioam.delay_ns", h.Delay.Value))
	}
	return all
}

func (f Flow) attributes() []attribute {
	return []attribute{
		text("source.address", f.Source.String()), whole("source.port", f.SourcePort),
		text("destination.address", f.Destination.String()), whole("destination.port", f.DestinationPort),
		whole("network.protocol.number", uint32(f.Protocol)),
	}
}

func (r *Record) attributes(t *Trace) []attribute {
	all := append(r.Flow.attributes(), whole("network.packet.size", r.Length), whole("ioam.namespace", t.Namespace))
	if r.Proof != "" {
		all = append(all, text("ioam.proof", r.Proof))
	}
	return all
}

// Add queues a packet without blocking.
func (o *OTLP) Add(r *Record) {
	if o.Flows != nil {
		if !o.Flows.add(r) {
			o.Dropped++
		}
		return
	}
	spans := spansOf(r)
	if spans == nil {
		return
	}
	select {
	case o.queue <- spans:
	default:
		o.Dropped++
	}
}

// Run sends queued records until ctx ends, and then the rest. failed receives errors.
func (o *OTLP) Run(ctx context.Context, failed func(error)) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	var flows <-chan time.Time // nil without Flows
	if o.Flows != nil {
		interval := time.NewTicker(o.Flows.Every)
		defer interval.Stop()
		flows = interval.C
	}
	var batch []span
	packets := 0
	send := func() {
		if len(batch) == 0 {
			return
		}
		if err := o.send(batch); err != nil {
			failed(err)
		}
		batch, packets = batch[:0], 0
	}
	sendFlows := func() {
		for _, spans := range o.Flows.take() {
			batch = append(batch, spans...)
			if packets++; packets == Batch {
				send()
			}
		}
		send()
	}
	for {
		select {
		case spans := <-o.queue:
			batch = append(batch, spans...)
			if packets++; packets == Batch {
				send()
			}
		case <-ticker.C:
			send()
		case <-flows:
			sendFlows()
		case <-ctx.Done():
			for len(o.queue) > 0 {
				batch = append(batch, <-o.queue...)
			}
			send()
			sendFlows()
			return
		}
	}
}

func (o *OTLP) send(spans []span) error {
	scope := scopeSpans{Scope: instrumentation, Spans: spans}
	request := exportRequest{[]resourceSpans{{Resource: resourceOf(o.Host), ScopeSpans: []scopeSpans{scope}}}}
	return post(o.Client, o.URL, "traces", request)
}
