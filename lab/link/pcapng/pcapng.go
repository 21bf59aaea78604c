// SPDX-License-Identifier: Apache-2.0

// Package pcapng writes packet traces in the format of draft-ietf-opsawg-pcapng, for tcpdump and
// Wireshark, with a comment for each frame that has a remark. It is pure, and appends to the
// caller's memory.
//
// gopacket's pcapgo does not replace it here: NgWriter writes to a stream and allocates four times
// for each comment, on the thread that forwards frames. This package allocates nothing, and its
// blocks have a known maximum size ([Overhead]), so a frame without free memory is left out and
// counted instead of waited for.
package pcapng

import "encoding/binary"

// Types of blocks and codes of options.
const (
	sectionHeader  = 0x0a0d0d0a
	interfaceBlock = 1
	statistics     = 5
	enhancedPacket = 6

	byteOrderMagic = 0x1a2b3c4d
	linkEthernet   = 1

	optionEnd     = 0
	optionComment = 1
	optionName    = 2 // of an interface; of a section: the hardware
	optionProgram = 4 // of a section
	optionClock   = 9 // if_tsresol
	optionDropped = 5 // isb_ifdrop
)

// Overhead is the maximum size of a frame's block beyond its bytes and its comment.
const Overhead = 32 + 4 + 4 + 4 + 3 + 3

// Header appends the beginning of a trace: a section by program, and an interface for each name, in
// order from number 0, with times in nanoseconds and at most snap bytes of each frame.
func Header(to []byte, program string, snap int, names ...string) []byte {
	to = block(to, sectionHeader, func(b []byte) []byte {
		b = binary.LittleEndian.AppendUint32(b, byteOrderMagic)
		b = binary.LittleEndian.AppendUint16(b, 1) // version 1.0
		b = binary.LittleEndian.AppendUint16(b, 0)
		b = binary.LittleEndian.AppendUint64(b, ^uint64(0)) // unknown length of the section
		return end(option(b, optionProgram, program))
	})
	for _, name := range names {
		to = block(to, interfaceBlock, func(b []byte) []byte {
			b = binary.LittleEndian.AppendUint16(b, linkEthernet)
			b = binary.LittleEndian.AppendUint16(b, 0)
			b = binary.LittleEndian.AppendUint32(b, uint32(snap))
			b = option(b, optionName, name)
			return end(option(b, optionClock, "\x09")) // 10^-9 s
		})
	}
	return to
}

// Frame appends a frame of octets bytes that begins with content, at a time in ns since 1970. An
// empty comment is left out.
func Frame(to []byte, number int, at int64, octets int, content []byte, comment string) []byte {
	first := len(to)
	to = binary.LittleEndian.AppendUint32(to, enhancedPacket)
	to = binary.LittleEndian.AppendUint32(to, 0)
	to = binary.LittleEndian.AppendUint32(to, uint32(number))
	to = binary.LittleEndian.AppendUint32(to, uint32(uint64(at)>>32))
	to = binary.LittleEndian.AppendUint32(to, uint32(at))
	to = binary.LittleEndian.AppendUint32(to, uint32(len(content)))
	to = binary.LittleEndian.AppendUint32(to, uint32(octets))
	to = pad(append(to, content...))
	if comment != "" {
		to = end(option(to, optionComment, comment))
	}
	return closeBlock(to, first)
}

// Statistics appends the number of an interface's frames that are missing in the trace.
func Statistics(to []byte, number int, at int64, missing uint64) []byte {
	return block(to, statistics, func(b []byte) []byte {
		b = binary.LittleEndian.AppendUint32(b, uint32(number))
		b = binary.LittleEndian.AppendUint32(b, uint32(uint64(at)>>32))
		b = binary.LittleEndian.AppendUint32(b, uint32(at))
		return end(option(b, optionDropped, string(binary.LittleEndian.AppendUint64(nil, missing))))
	})
}

func block(to []byte, kind uint32, body func([]byte) []byte) []byte {
	first := len(to)
	to = binary.LittleEndian.AppendUint32(to, kind)
	to = binary.LittleEndian.AppendUint32(to, 0)
	return closeBlock(body(to), first)
}

// closeBlock writes the block's length at both of its ends.
func closeBlock(to []byte, first int) []byte {
	length := uint32(len(to) - first + 4)
	binary.LittleEndian.PutUint32(to[first+4:], length)
	return binary.LittleEndian.AppendUint32(to, length)
}

func option(to []byte, code uint16, value string) []byte {
	to = binary.LittleEndian.AppendUint16(to, code)
	to = binary.LittleEndian.AppendUint16(to, uint16(len(value)))
	return pad(append(to, value...))
}

func end(to []byte) []byte { return binary.LittleEndian.AppendUint32(to, optionEnd) }

// pad fills up to 32 bits: blocks begin at a multiple of that.
func pad(to []byte) []byte {
	for len(to)%4 != 0 {
		to = append(to, 0)
	}
	return to
}
