// SPDX-License-Identifier: Apache-2.0

// Package analyzer classifies every tester frame that arrives at a device, per stream and without
// sampling, in an XDP program.
//
// Pitfalls:
//   - The program needs native XDP and occupies the device's only XDP hook while the analyzer is
//     open.
//   - Stamped frames of announced streams are dropped after counting, unless Options.Pass is set;
//     all other frames are passed on.
//   - Sequence numbers start at 0: an analyzer attached in the middle of a stream counts the
//     earlier frames as lost.
//   - A frame with a wrong UDP checksum counts as received and as a payload error, and its
//     sequence number as lost. An IPv4 frame with the checksum 0 carries none and is not checked. A
//     wrong IPv4 header checksum is a header error.
//   - Losses after the last arrival are not visible here: compare with the generator's account.
//   - An out-of-window frame is in Received alone: it is later than RFC 7680's threshold. The
//     window is the last 128 blocks of 64 sequence numbers.
//   - With Options.Relative delays count from the smallest one. Their resolution is 1/32 of the
//     value unless the first 16 frames took much longer than the fastest (Counts.DelayBlur).
package analyzer

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"weir/internal/fault"
	"weir/kernel/bpferr"
	"weir/kernel/netns"
	"weir/kernel/rtnl"
	"weir/tester"
	"weir/tester/tai"
)

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -cflags "-O2 -g -Wall -Werror -mcpu=v3 -I/usr/include/x86_64-linux-gnu" -target bpfel -type captured -type reason -type stream_counts -type port_counts -type time_bucket analyzer analyzer.bpf.c

// Window is the minimum number of sequence numbers tracked below the highest.
const Window = (blocks - 1) * 64

const blocks = 128

// Options configures an analyzer.
type Options struct {
	Streams []uint16 // identifiers to judge; frames of other streams count as unknown
	Pass    bool     // pass judged frames on to the stack
	Capture bool     // keep frames around errors, at some cost per frame
	// Relative is for senders with another clock: the delays of each stream count from its smallest
	// one.
	Relative bool
}

// Analyzer is attached to one device. Snapshot and Captured are safe for concurrent use, until
// Close.
type Analyzer struct {
	streams  []uint16 // by slot
	relative bool
	objects  analyzerObjects
	times    *ebpf.Memory // the histograms
	link     link.Link
	reader   *ringbuf.Reader
}

// Attach loads the analyzer and attaches it to a device of ns; a nil ns is the calling thread's
// own. The analyzer stays the device's only XDP program until Close or the end of this process.
func Attach(ns *netns.Namespace, device string, options Options) (*Analyzer, error) {
	conn, err := rtnl.Open(ns)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	found, err := conn.Device(device)
	if err != nil {
		return nil, fault.Wrap(err, fault.Usage, "name a device of that namespace: ip link")
	}
	a, err := load(options, found.Queues != 1)
	if err != nil {
		return nil, err
	}
	err = ns.Do(func() (err error) {
		a.link, err = link.AttachXDP(link.XDPOptions{Program: a.objects.Analyze, Interface: found.Index, Flags: link.XDPDriverMode})
		return err
	})
	if err != nil {
		return nil, errors.Join(rejection(found, err), a.Close())
	}
	return a, nil
}

func rejection(device rtnl.Device, err error) error {
	err = fmt.Errorf("attach analyzer to %s in native XDP mode: %w", device.Name, err)
	switch {
	case errors.Is(err, unix.EBUSY), errors.Is(err, unix.EEXIST):
		return occupied(device.Name, device.XDP, err)
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EINVAL):
		return fault.Wrap(err, fault.Testbed, "use a device with native XDP, such as veth")
	case errors.Is(err, unix.EPERM):
		return fault.Wrap(err, fault.Permission, "run as root, or with CAP_BPF and CAP_NET_ADMIN")
	}
	return err
}

// load creates the maps and programs for the streams; parallel is for devices that may have more
// than one queue.
func load(options Options, parallel bool) (*Analyzer, error) {
	streams := slices.Clone(options.Streams)
	slices.Sort(streams)
	streams = slices.Compact(streams)
	if n := len(streams); n > 0 && streams[n-1] >= tester.MaxStreams {
		return nil, fault.New(fault.Usage, fmt.Sprintf("use identifiers below %d", tester.MaxStreams), "announce stream %d: no such identifier", streams[n-1])
	}
	spec, err := loadAnalyzer()
	if err != nil {
		return nil, fmt.Errorf("read analyzer program: %w", err)
	}
	slots := uint32(max(len(streams), 1))
	for _, name := range []string{"streams", "windows"} {
		spec.Maps[name].MaxEntries = slots
	}
	spec.Maps["times"].MaxEntries *= slots
	if !options.Capture {
		spec.Maps["captures"].MaxEntries = uint32(unix.Getpagesize())
	}
	offset, err := tai.Offset()
	if err != nil {
		return nil, err
	}
	settings := analyzerAnalyzerSettings{Tai: offset, Streams: slots, Pass: flag(options.Pass), Capture: flag(options.Capture), Parallel: flag(parallel), Relative: flag(options.Relative)}
	if err := spec.Variables["settings"].Set(&settings); err != nil {
		return nil, fmt.Errorf("set up analyzer: %w", err)
	}
	a := &Analyzer{streams: streams, relative: options.Relative}
	if err := spec.LoadAndAssign(&a.objects, nil); err != nil {
		return nil, programNeeds.Fault("load analyzer", err)
	}
	for slot, id := range streams {
		if err := a.objects.Slots.Put(uint32(id), uint32(slot)+1); err != nil {
			return nil, errors.Join(fmt.Errorf("announce stream %d: %w", id, err), a.Close())
		}
	}
	if a.times, err = a.objects.Times.Memory(); err != nil {
		return nil, errors.Join(fmt.Errorf("map histograms: %w", err), a.Close())
	}
	if a.reader, err = ringbuf.NewReader(a.objects.Captures); err != nil {
		return nil, errors.Join(fmt.Errorf("open capture: %w", err), a.Close())
	}
	return a, nil
}

func flag(set bool) uint8 {
	if set {
		return 1
	}
	return 0
}

// Close detaches the program and frees the maps with their counts.
func (a *Analyzer) Close() error {
	var all []error
	if a.link != nil {
		all = append(all, a.link.Close())
	}
	if a.reader != nil {
		all = append(all, a.reader.Close())
	}
	if err := errors.Join(append(all, a.objects.Close())...); err != nil {
		return fmt.Errorf("detach analyzer: %w", err)
	}
	return nil
}

// programNeeds lists the requirements of the programs.
var programNeeds = bpferr.Needs{Capabilities: bpferr.Standard, Kernel: "Linux 6.1 or later with CONFIG_BPF_JIT"}
