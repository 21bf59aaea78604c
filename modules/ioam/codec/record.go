// SPDX-License-Identifier: Apache-2.0

package codec

// Added is the result of adding data to a trace.
type Added uint8

// Results.
const (
	Recorded  Added = iota // data added
	NoRoom                 // overflow flag set
	Overfull               // unchanged: overflow flag was set
	NotForUse              // unchanged: unsupported Trace-Type
)

// Record updates the data of a pre-allocated trace in place as a transit node (RFC 9197 section
// 4.4.1). It writes undefined fields as not populated.
func Record(data []byte, n Node) (Added, error) {
	h, err := CheckTrace(PreallocatedTrace, data)
	if err != nil {
		return NotForUse, err
	}
	if h.Flags&Overflow != 0 {
		return Overfull, nil
	}
	for i := range n.Undefined {
		n.Undefined[i] = None32
	}
	own := n.append(make([]byte, 0, 128), h.Fields)
	if len(own) > 4*int(h.Remaining) {
		data[2] |= byte(Overflow) >> 1
		return NoRoom, nil
	}
	h.Remaining -= uint8(len(own) / 4)
	copy(data[traceHead+4*int(h.Remaining):], own)
	data[3] = data[3]&0x80 | h.Remaining
	return Recorded, nil
}
