// SPDX-License-Identifier: Apache-2.0

// Package replay sends the frames of a capture at their times and reports late, missing and
// reordered frames, and the error of the arrivals' spacing against the capture.
//
// Pitfalls: the kernel behind the receiving port sees the frames too and may answer them. Frames
// that differ only in MAC addresses, VLAN, TTL or DSCP are distinguished by order alone, so a loss
// among them is counted as the loss of the last one.
package replay

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"weir/internal/fault"
)

// Frame is one frame of a capture.
type Frame struct {
	At     time.Duration // since the first frame; never before its predecessor
	Octets []byte        // without FCS
}

// Capture is the content of a file.
type Capture struct {
	Frames []Frame
	// Backwards counts frames with a time before their predecessor's: they are sent together with
	// it.
	Backwards int
}

// Span is the time from the first frame to the last.
func (c Capture) Span() time.Duration {
	if len(c.Frames) == 0 {
		return 0
	}
	return c.Frames[len(c.Frames)-1].At
}

const (
	// MaxFrames and MaxOctets bound the memory of a capture.
	MaxFrames = 4 << 20
	MaxOctets = 1 << 30
	// maxDecompressed bounds the blocks of a compressed capture, including those without frames.
	maxDecompressed = 2 << 30

	smallest = 14 // octets: an Ethernet header
)

type reader interface {
	ReadPacketData() ([]byte, gopacket.CaptureInfo, error)
	LinkType() layers.LinkType
}

// Read reads a pcap or pcapng file of Ethernet frames, which may be compressed by gzip. Errors are
// faults of usage that name the frame. A frame that was captured in part is an error: its rest is
// unknown.
func Read(from io.Reader) (Capture, error) { return readUpTo(from, maxDecompressed) }

func readUpTo(from io.Reader, limit int64) (Capture, error) {
	r, err := open(from, limit)
	if err != nil {
		return Capture{}, err
	}
	var c Capture
	var first time.Time
	octets := 0
	for n := 1; ; n++ {
		data, info, err := r.ReadPacketData()
		switch {
		case errors.Is(err, io.EOF) && len(c.Frames) > 0:
			return c, nil
		case errors.Is(err, io.EOF):
			return c, fault.New(fault.Usage, "give a capture with frames", "the capture is empty")
		case errors.Is(err, errExpanded):
			return c, fault.New(fault.Usage, "decompress it, and split it with 'editcap -c'", "frame %d of the capture: %w", n, err)
		case err != nil:
			return c, fault.New(fault.Usage, "the file may have been cut: capture again, or keep its whole frames by 'editcap'", "frame %d of the capture: %w", n, err)
		}
		if octets += len(data); len(c.Frames) == MaxFrames || octets > MaxOctets {
			return c, fault.New(fault.Usage, "split it with 'editcap -c'", "frame %d of the capture: more than %d frames or %d octets", n, MaxFrames, MaxOctets)
		}
		if err := check(n, data, info); err != nil {
			return c, err
		}
		if n == 1 {
			first = info.Timestamp
		}
		at := info.Timestamp.Sub(first)
		if before := c.Span(); at < before {
			at = before
			c.Backwards++
		}
		c.Frames = append(c.Frames, Frame{At: at, Octets: data})
	}
}

func open(from io.Reader, limit int64) (reader, error) {
	const form = "give a pcap or pcapng file of Ethernet frames, such as 'tcpdump -w' writes"
	buffered := bufio.NewReader(from)
	if magic, _ := buffered.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, fault.New(fault.Usage, form, "gzip header of the capture: %w", err)
		}
		buffered = bufio.NewReader(&bounded{from: z, left: limit})
	}
	magic, err := buffered.Peek(4)
	if err != nil {
		return nil, fault.New(fault.Usage, form, "the capture ends within its first 4 octets")
	}
	var r reader
	if bytes.Equal(magic, []byte{0x0a, 0x0d, 0x0d, 0x0a}) {
		r, err = pcapgo.NewNgReader(buffered, pcapgo.NgReaderOptions{ErrorOnMismatchingLinkType: true})
	} else {
		r, err = pcapgo.NewReader(buffered)
	}
	switch {
	case err != nil:
		return nil, fault.New(fault.Usage, form, "header of the capture: %w", err)
	case r.LinkType() != layers.LinkTypeEthernet:
		return nil, fault.New(fault.Usage, form, "the capture is of %s, not of Ethernet", r.LinkType())
	}
	return r, nil
}

// errExpanded is returned for a compressed capture that is too large.
var errExpanded = errors.New("too many octets of the file when decompressed")

// bounded returns an error after a number of octets, where io.LimitReader would report the end.
type bounded struct {
	from io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errExpanded
	}
	n, err := b.from.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	if errors.Is(err, io.ErrUnexpectedEOF) { // the pcapng reader would take it for the end
		err = errors.New("the gzip stream is truncated")
	}
	return n, err
}

func check(n int, data []byte, info gopacket.CaptureInfo) error {
	switch {
	case info.CaptureLength < info.Length:
		return fault.New(fault.Usage, "capture whole frames: 'tcpdump -s 0'", "frame %d of the capture has %d of its %d octets", n, info.CaptureLength, info.Length)
	case len(data) < smallest:
		return fault.New(fault.Usage, "leave it out with 'editcap'", "frame %d of the capture has %d octets: no Ethernet header", n, len(data))
	case info.Timestamp.IsZero():
		return fault.New(fault.Usage, "use a capture with times: pcap, or pcapng with enhanced packet blocks", "frame %d of the capture has no time", n)
	}
	return nil
}
