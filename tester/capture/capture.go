// SPDX-License-Identifier: Apache-2.0

// Package capture writes the frames around errors to pcapng files for tshark and Wireshark: each
// frame with its time, length, and a comment with stream, sequence number and error. The writer is
// gopacket's pcapgo, which keeps nanoseconds, interface names and comments.
package capture

import (
	"compress/gzip"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"weir/tester"
)

// Write writes the frames of one or more ports, each an interface of the file, in order of arrival.
// epoch is the wall-clock time at which CLOCK_MONOTONIC was zero.
func Write(w io.Writer, epoch time.Time, ports map[string][]tester.CapturedFrame) error {
	names := make([]string, 0, len(ports))
	for name := range ports {
		names = append(names, name)
	}
	slices.Sort(names)
	if len(names) == 0 {
		return fmt.Errorf("write capture: no port was captured")
	}
	face := func(name string) pcapgo.NgInterface {
		return pcapgo.NgInterface{Name: name, LinkType: layers.LinkTypeEthernet, TimestampResolution: 9}
	}
	out, err := pcapgo.NewNgWriterInterface(w, face(names[0]), pcapgo.NgWriterOptions{SectionInfo: pcapgo.NgSectionInfo{Application: "weir tester"}})
	if err != nil {
		return fmt.Errorf("write capture: %w", err)
	}
	for i, name := range names {
		if i > 0 {
			if _, err := out.AddInterface(face(name)); err != nil {
				return fmt.Errorf("write capture: %w", err)
			}
		}
		for _, f := range ports[name] {
			if err := frame(out, i, epoch, f); err != nil {
				return fmt.Errorf("write capture: %w", err)
			}
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write capture: %w", err)
	}
	return nil
}

// WriteCompressed is Write in the gzip format, for a file named *.pcapng.gz.
func WriteCompressed(w io.Writer, epoch time.Time, ports map[string][]tester.CapturedFrame) error {
	z := gzip.NewWriter(w)
	if err := Write(z, epoch, ports); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("write capture: %w", err)
	}
	return nil
}

func frame(out *pcapgo.NgWriter, port int, epoch time.Time, f tester.CapturedFrame) error {
	info := gopacket.CaptureInfo{Timestamp: epoch.Add(f.At), CaptureLength: len(f.Data), Length: max(f.Length, len(f.Data)), InterfaceIndex: port}
	comment := fmt.Sprintf("stream %d, sequence number %d: %s", f.Stream, f.Sequence, f.Reason)
	return out.WritePacketWithOptions(info, f.Data, pcapgo.NgPacketOptions{Comments: []string{comment}})
}
