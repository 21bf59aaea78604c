// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"encoding/hex"
	"fmt"
	"slices"
)

// TraceContext is the W3C trace context of the request of a packet, as in the header field
// traceparent. The zero value is no context.
type TraceContext struct {
	Version uint8
	Trace   [16]byte
	Parent  [8]byte
	Flags   uint8
}

// IsZero reports whether there is no context.
func (c TraceContext) IsZero() bool { return c == TraceContext{} }

// Sampled reports whether the application records its own spans.
func (c TraceContext) Sampled() bool { return c.Flags&1 != 0 }

func (c TraceContext) String() string {
	return fmt.Sprintf("%02x-%s-%s-%02x", c.Version, hex.EncodeToString(c.Trace[:]), hex.EncodeToString(c.Parent[:]), c.Flags)
}

// MarshalText returns the value of the header field.
func (c TraceContext) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// contextOctets is the size of a context, paddedOctets its size as opaque state.
const contextOctets, paddedOctets = 26, 28

// TakeContext moves the context from the opaque state of the first node, with the given schema, to
// the record. It has precedence over a context in the request, which others may have written.
func (r *Record) TakeContext(schema uint32) {
	for i := range r.Traces {
		hops := r.Traces[i].Hops
		if len(hops) == 0 || !hops[0].Schema.Known || hops[0].Schema.Value != schema || len(hops[0].State) != paddedOctets {
			continue
		}
		state := hops[0].State
		c := TraceContext{Version: state[0], Flags: state[contextOctets-1]}
		copy(c.Trace[:], state[1:])
		copy(c.Parent[:], state[17:])
		if c.Version == 0xff || c.Trace == [16]byte{} || c.Parent == [8]byte{} || slices.ContainsFunc(state[contextOctets:], func(b byte) bool { return b != 0 }) {
			continue
		}
		hops[0].Schema, hops[0].State = Optional[uint32]{}, nil
		r.Context = c
		return
	}
}

// Flags of OTLP spans: the parent is in another process, and that is known.
const remoteParent = 0x300

// identify returns the trace of a packet's spans and their parent span: those of the application if
// it records spans, otherwise a new trace.
func (r *Record) identify() (trace, parent string, flags uint32) {
	if c := r.Context; c.Sampled() {
		return hex.EncodeToString(c.Trace[:]), hex.EncodeToString(c.Parent[:]), uint32(c.Flags) | remoteParent
	}
	return newID(16), "", 0
}
