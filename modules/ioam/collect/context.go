// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"encoding/hex"
	"fmt"
	"slices"
)

// TraceContext is what an application said of the request that a packet belongs to (W3C Trace
// Context), as its header field traceparent has it. The zero value is of no application.
type TraceContext struct {
	Version uint8
	Trace   [16]byte
	Parent  [8]byte
	Flags   uint8
}

// IsZero says that no application has said anything.
func (c TraceContext) IsZero() bool { return c == TraceContext{} }

// Sampled says whether the application's own spans are recorded.
func (c TraceContext) Sampled() bool { return c.Flags&1 != 0 }

func (c TraceContext) String() string {
	return fmt.Sprintf("%02x-%s-%s-%02x", c.Version, hex.EncodeToString(c.Trace[:]), hex.EncodeToString(c.Parent[:]), c.Flags)
}

// MarshalText is the header field's value.
func (c TraceContext) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// contextOctets are those of a context, paddedOctets those that it takes as opaque state.
const contextOctets, paddedOctets = 26, 28

// TakeContext has the record tell the context that its first node has put into a trace: opaque
// state of a schema, which is then no state of the node's any more. It comes before what a request
// says, which others may have written.
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

// identify says of which trace a packet's spans are, and which span they come under: the
// application's where it records its own, else a trace of their own.
func (r *Record) identify() (trace, parent string, flags uint32) {
	if c := r.Context; c.Sampled() {
		return hex.EncodeToString(c.Trace[:]), hex.EncodeToString(c.Parent[:]), uint32(c.Flags) | remoteParent
	}
	return newID(16), "", 0
}
