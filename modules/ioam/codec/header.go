// SPDX-License-Identifier: Apache-2.0

package codec

// Header is a Hop-by-Hop or Destination Options header (RFC 8200 section 4).
type Header struct {
	NextHeader uint8
	Length     int      // octets of the header
	Options    []Option // IOAM options
	Others     int      // options that are neither padding nor IOAM
}

// Option is one IOAM option in its header.
type Option struct {
	Type   OptionType
	Offset int    // of the IPv6 option's type field in the header
	Data   []byte // behind the IOAM-Option-Type
}

// DecodeHeader decodes an options header at the beginning of b. It checks the frame of each option,
// not its data.
func DecodeHeader(b []byte) (h Header, err error) {
	if len(b) < 8 || len(b) < (int(b[1])+1)*8 {
		return h, wrong(ShortHeader, 0)
	}
	h.NextHeader, h.Length = b[0], (int(b[1])+1)*8
	b = b[:h.Length]
	padding := 0
	for at := 2; at < len(b); {
		if b[at] == pad1 {
			if padding++; padding > 7 {
				return h, wrong(LongPadding, at)
			}
			at++
			continue
		}
		if at+2 > len(b) || at+2+int(b[at+1]) > len(b) {
			return h, wrong(ShortOption, at)
		}
		end := at + 2 + int(b[at+1])
		switch b[at] {
		case padN:
			if padding += end - at; padding > 7 {
				return h, wrong(LongPadding, at)
			}
		case Mutable, Immutable:
			padding = 0
			if end < at+optionHead {
				return h, wrong(ShortData, at)
			}
			if at%4 != 0 {
				return h, wrong(Misaligned, at)
			}
			h.Options = append(h.Options, Option{OptionType(b[at+3]), at, b[at+optionHead : end : end]})
		default:
			padding = 0
			h.Others++
		}
		at = end
	}
	return h, nil
}

// Body is the data of an option to write.
type Body interface {
	Type() OptionType
	// Append appends the octets after the IOAM-Option-Type.
	Append([]byte) []byte
}

// AppendHeader appends an extension header with the options in order, each aligned to 4 octets,
// padded to a multiple of 8. The maximum is 2048 octets for the header and 253 for an option.
func AppendHeader(b []byte, nextHeader uint8, options ...Body) []byte {
	start := len(b)
	b = append(b, nextHeader, 0)
	for _, o := range options {
		b = pad(b, (4-(len(b)-start)%4)%4)
		at := len(b)
		b = o.Append(append(b, o.Type().ipv6Type(), 0, 0, byte(o.Type())))
		b[at+1] = byte(len(b) - at - 2)
	}
	b = pad(b, (8-(len(b)-start)%8)%8)
	b[start+1] = byte((len(b)-start)/8 - 1)
	return b
}

// pad appends n octets of padding.
func pad(b []byte, n int) []byte {
	switch n {
	case 0:
		return b
	case 1:
		return append(b, pad1)
	}
	b = append(b, padN, byte(n-2))
	return append(b, make([]byte, n-2)...)
}
