// SPDX-License-Identifier: Apache-2.0

// Package codec reads and writes the in situ OAM options of IPv6: the pre-allocated and the
// incremental trace, proof of transit and edge-to-edge (RFC 9197), direct export (RFC 9326), and
// the Hop-by-Hop and Destination Options headers that carry them (RFC 9486). It is pure.
//
// RFC 9486 defines no incremental trace for IPv6, because it grows en route. The package reads and
// writes it in the form of RFC 9197.
//
// Pitfalls: decoding is strict. Each error has a Reason, and the data plane counts the same
// mistakes. A field that a node could not fill is all ones. Decoded values share memory with the
// input.
package codec

import "fmt"

// OptionType is an IOAM-Option-Type (RFC 9197 section 7.1, RFC 9326 section 4.1).
type OptionType uint8

// Values of IOAM-Option-Type.
const (
	PreallocatedTrace OptionType = 0
	IncrementalTrace  OptionType = 1
	ProofOfTransit    OptionType = 2
	EdgeToEdge        OptionType = 3
	DirectExport      OptionType = 4
)

var typeNames = [...]string{"pre-allocated trace", "incremental trace", "proof of transit", "edge-to-edge", "direct export"}

func (t OptionType) String() string {
	if int(t) < len(typeNames) {
		return typeNames[t]
	}
	return fmt.Sprintf("type %d", uint8(t))
}

// Types of IPv6 options (RFC 9486 section 6). The third bit marks options that change en route.
// Nodes skip unknown types.
const (
	pad1       = 0x00
	padN       = 0x01
	Immutable  = 0x11
	Mutable    = 0x31
	optionHead = 4 // type, length, reserved, IOAM-Option-Type
)

// ipv6Type returns the type of the IPv6 option that carries an IOAM option.
func (t OptionType) ipv6Type() byte {
	if t == EdgeToEdge || t == DirectExport {
		return Immutable
	}
	return Mutable
}

// Reason states why bytes are not a valid IOAM option.
type Reason string

// The reasons.
const (
	ShortHeader   Reason = "header truncated"     // the extension header is shorter than stated
	ShortOption   Reason = "option truncated"     // an option ends behind its header
	LongPadding   Reason = "padding"              // more than 7 octets in a row
	ShortData     Reason = "option too short"     // for its IOAM-Option-Type
	OddData       Reason = "length not in words"  // data not a multiple of 4 octets
	Misaligned    Reason = "alignment"            // not at a multiple of 4 octets
	NodeLength    Reason = "node length"          // NodeLen contradicts the Trace-Type
	Remaining     Reason = "remaining length"     // RemainingLen exceeds the option
	NodeTruncated Reason = "node data truncated"  // the list ends inside a node's data
	SequenceTwice Reason = "two sequence numbers" // of 64 and of 32 bits
	FieldLength   Reason = "field length"         // optional fields contradict the flags
)

// Error is the first mistake and its offset.
type Error struct {
	Reason Reason
	Offset int
}

func (e *Error) Error() string { return fmt.Sprintf("IOAM at octet %d: %s", e.Offset, e.Reason) }

func wrong(reason Reason, offset int) error { return &Error{reason, offset} }
