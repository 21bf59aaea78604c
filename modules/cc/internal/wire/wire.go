// SPDX-License-Identifier: Apache-2.0

// Package wire is a link for tests of congestion controls: it marks a share of the data packets of
// a device with CE, and reports every TCP segment in both directions.
//
// Pitfalls: a super-packet (GSO) is one packet here, and is marked or not as a whole.
package wire

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -cflags "-O2 -g -Wall -Werror -mcpu=v3 -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu" -target bpfel -type wire_segment wire wire.bpf.c

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"

	"weir/kernel/device"
)

// Wire is attached to one device. Make one with [Attach] in the device's namespace.
type Wire struct {
	objects wireObjects
	links   []*device.Attachment
	reader  *ringbuf.Reader
}

// Segment is a TCP segment that passed the device.
type Segment struct {
	Sent     bool   // data of the sender; otherwise an acknowledgment for it
	Sequence uint32 // of the first octet; the acknowledgment number if not Sent
	Octets   uint32 // of data
	Capable  bool   // ECT or CE
	Marked   bool   // CE was set here
	Echo     bool   // ECE
	Reduced  bool   // CWR
	SYN      bool
}

// Attach puts the programs on the device with this index.
func Attach(index int) (*Wire, error) {
	at, err := net.InterfaceByIndex(index)
	if err != nil {
		return nil, fmt.Errorf("find device %d: %w", index, err)
	}
	w := &Wire{}
	if err := loadWireObjects(&w.objects, nil); err != nil {
		return nil, fmt.Errorf("load wire: %w", err)
	}
	for _, end := range []struct {
		program *ebpf.Program
		hook    device.Hook
	}{{w.objects.WireSent, device.Egress}, {w.objects.WireReceived, device.Ingress}} {
		attached, err := device.Attach(nil, at.Name, end.hook, 0, "wire", end.program, device.Options{})
		if err != nil {
			_ = w.Close()
			return nil, fmt.Errorf("attach wire: %w", err)
		}
		w.links = append(w.links, attached)
	}
	reader, err := ringbuf.NewReader(w.objects.WireSegments)
	if err != nil {
		_ = w.Close()
		return nil, fmt.Errorf("open segments: %w", err)
	}
	w.reader = reader
	return w, nil
}

// Close takes the programs away.
func (w *Wire) Close() error {
	var all []error
	for _, attached := range w.links {
		all = append(all, attached.Close())
	}
	if w.reader != nil {
		all = append(all, w.reader.Close())
	}
	return errors.Join(append(all, w.objects.Close())...)
}

// Mark sets CE on the first marks of every period data packets from now on.
func (w *Wire) Mark(marks, period uint32) error {
	return errors.Join(w.objects.WireMarks.Set(marks), w.objects.WirePeriod.Set(period))
}

// Lose sends the data packet after the next n to a missing station.
func (w *Wire) Lose(n uint32) error { return w.after(n, w.objects.WireLose) }

// Refuse drops the data packet after the next n like a full queue of the sender: TCP reduces its
// window at once, and detects the loss later.
func (w *Wire) Refuse(n uint32) error { return w.after(n, w.objects.WireRefuse) }

func (w *Wire) after(n uint32, number *ebpf.Variable) error {
	var now uint32
	if err := w.objects.WireData.Get(&now); err != nil {
		return err
	}
	return number.Set(now + n + 1)
}

// Segments returns the segments since the last call, in order.
func (w *Wire) Segments() (list []Segment, err error) {
	w.reader.SetDeadline(time.Now())
	for {
		record, err := w.reader.Read()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return list, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read segments: %w", err)
		}
		var raw wireWireSegment
		if _, err := binary.Decode(record.RawSample, binary.NativeEndian, &raw); err != nil {
			return nil, fmt.Errorf("decode segment: %w", err)
		}
		list = append(list, Segment{
			Sent: raw.Sent != 0, Sequence: raw.Sequence, Octets: raw.Octets, Capable: raw.Capable != 0, Marked: raw.Marked != 0,
			Echo: raw.Echo != 0, Reduced: raw.Reduced != 0, SYN: raw.Syn != 0,
		})
	}
}
