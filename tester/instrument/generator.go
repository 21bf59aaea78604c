// SPDX-License-Identifier: Apache-2.0

package instrument

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"math/bits"
	"time"

	"weir/tester"
)

// Bounds of a frame in octets, FCS included.
const (
	MinSize    = 64
	MaxSize    = 9000
	MaxStreams = tester.MaxStreams
	stampSize  = tester.StampSize
	fcs        = tester.FCSSize
)

// Action is a modifier's step.
type Action int

const (
	Increment Action = iota
	Decrement
	Random
)

// Modifier changes the masked bits at Offset after every Repetitions frames of its stream, in
// network byte order; 0 is 1.
type Modifier struct {
	Action      Action
	Offset      int
	Mask        []byte
	Repetitions uint32
}

// Stream is a part of a generator's cycle. Gaps are octets between the end of a frame and the start
// of the next one, at the port's speed; preamble and minimum gap count as 20 of them.
type Stream struct {
	Dynamic   bool   // number and time in the last 18 octets
	Size      int    // octets, FCS included
	Data      []byte // from the destination address on; zeros follow
	Gap       uint64
	Burst     uint32 // frames between two burst gaps; 0 is no bursts
	BurstGap  uint64
	Frames    uint64 // before the next stream's turn; 0 is no end
	StreamGap uint64 // after the last of Frames
	Modifiers []Modifier
}

// Generator sends its streams in order, again and again, with one sequence numbering.
type Generator struct {
	Streams    []Stream
	Total      uint64    // frames; 0 is no end
	StartDelay uint64    // octets, from the common origin of a setup, or from Epoch
	Epoch      time.Time // zero starts at once
}

// CheckStream reports the field of a stream that no generator can send, and why; "" is none.
func CheckStream(s *Stream) (field, problem string) {
	if s.Size < MinSize || s.Size > MaxSize {
		return "frame-size", fmt.Sprintf("frames have %d to %d octets", MinSize, MaxSize)
	}
	for i, m := range s.Modifiers {
		at := fmt.Sprintf("modifier %d", i)
		switch {
		case len(m.Mask) == 0:
			return at, "the mask is empty"
		case m.Offset+len(m.Mask) > s.Size-fcs:
			return at, fmt.Sprintf("the mask ends at octet %d of a frame of %d without FCS", m.Offset+len(m.Mask), s.Size-fcs)
		}
	}
	if !s.Dynamic && len(s.Data) >= s.Size && binary.LittleEndian.Uint32(s.Data[s.Size-fcs:]) != crc32.ChecksumIEEE(s.Data[:s.Size-fcs]) {
		return "frame-data", "the last four octets are no correct FCS: a network device adds the FCS itself"
	}
	return "", ""
}

// shape is a stream ready to send. Modifiers change its octets in place.
type shape struct {
	*Stream
	octets    []byte // without FCS
	modifiers []counter
}

// counter is a modifier in progress.
type counter struct {
	*Modifier
	sent uint32 // frames with the present value
	seed uint64
}

// program is a generator being sent. Only its sender touches it.
type program struct {
	shapes   []shape
	total    uint64
	speed    uint64 // bit/s
	start    uint64 // ns of CLOCK_MONOTONIC at which position 0 is due
	at       int    // index of the current stream
	sent     uint64 // frames of its turn
	burst    uint32 // frames of its burst
	number   uint64 // next sequence number
	position uint64 // octets from start to the next frame
	done     bool
}

// compile prepares a generator for a speed in bit/s. Streams without frames have no turn.
func compile(g *Generator, speed, start uint64) *program {
	p := &program{total: g.Total, speed: speed, start: start, position: g.StartDelay}
	for i := range g.Streams {
		s := &g.Streams[i]
		one := shape{Stream: s, octets: make([]byte, s.Size-fcs)}
		copy(one.octets, s.Data)
		for j := range s.Modifiers {
			one.modifiers = append(one.modifiers, counter{Modifier: &s.Modifiers[j], seed: uint64(i)<<32 | uint64(j)})
		}
		p.shapes = append(p.shapes, one)
	}
	p.done = len(p.shapes) == 0
	return p
}

const never = math.MaxUint64

// due is when the next frame leaves, in ns of CLOCK_MONOTONIC. It is exact to the ns below: no
// remainder is lost, because positions are octets.
func (p *program) due() uint64 {
	high, low := bits.Mul64(p.position, 8e9)
	if high >= p.speed {
		return never
	}
	ns, _ := bits.Div64(high, low, p.speed)
	if sum, carry := bits.Add64(p.start, ns, 0); carry == 0 {
		return sum
	}
	return never
}

// fill makes the next frame at the start of buffer and moves on. tai is the time of the
// stamp in ns.
func (p *program) fill(buffer []byte, tai uint64) {
	s := &p.shapes[p.at]
	copy(buffer, s.octets)
	if s.Dynamic {
		putStamp(buffer[len(s.octets)-stampSize:], p.number, tai)
	}
	for i := range s.modifiers {
		s.modifiers[i].step(s.octets)
	}
	p.number++
	p.sent++
	p.burst++
	gap := s.Gap
	switch {
	case s.Frames > 0 && p.sent >= s.Frames:
		gap = s.StreamGap
		p.at, p.sent, p.burst = (p.at+1)%len(p.shapes), 0, 0
	case s.Burst > 0 && p.burst >= s.Burst:
		gap, p.burst = s.BurstGap, 0
	}
	p.position = saturated(saturated(p.position, uint64(s.Size)), gap)
	p.done = p.total > 0 && p.number >= p.total
}

func saturated(a, b uint64) uint64 {
	if sum, carry := bits.Add64(a, b, 0); carry == 0 {
		return sum
	}
	return never
}

// size is the next frame's octets without FCS.
func (p *program) size() int { return len(p.shapes[p.at].octets) }

// putStamp writes 8 octets of sequence number and 10 of IEEE 1588 time.
func putStamp(to []byte, number, tai uint64) {
	seconds := tai / uint64(time.Second)
	binary.BigEndian.PutUint64(to, number)
	binary.BigEndian.PutUint16(to[8:], uint16(seconds>>32))
	binary.BigEndian.PutUint32(to[10:], uint32(seconds))
	binary.BigEndian.PutUint32(to[14:], uint32(tai%uint64(time.Second)))
}

// step changes the frame's octets if the present value has had its repetitions.
func (c *counter) step(octets []byte) {
	if c.sent++; c.sent < c.Repetitions {
		return
	}
	c.sent = 0
	field := octets[c.Offset : c.Offset+len(c.Mask)]
	switch c.Action {
	case Increment:
		carry := uint16(1)
		for i := len(field) - 1; i >= 0; i-- {
			sum := uint16(field[i]|^c.Mask[i]) + carry
			field[i] = field[i]&^c.Mask[i] | byte(sum)&c.Mask[i]
			carry = sum >> 8
		}
	case Decrement:
		borrow := uint16(1)
		for i := len(field) - 1; i >= 0; i-- {
			rest := uint16(field[i]&c.Mask[i]) - borrow
			field[i] = field[i]&^c.Mask[i] | byte(rest)&c.Mask[i]
			borrow = rest >> 15
		}
	case Random:
		for i := range field {
			if i%8 == 0 {
				c.seed = mix(c.seed)
			}
			field[i] = field[i]&^c.Mask[i] | byte(c.seed>>(i%8*8))&c.Mask[i]
		}
	}
}

// mix is splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
