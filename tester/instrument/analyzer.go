// SPDX-License-Identifier: Apache-2.0

package instrument

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"weir/internal/fault"
	"weir/kernel/bpferr"
)

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -cflags "-O2 -g -Wall -Werror -mcpu=v3 -I/usr/include/x86_64-linux-gnu" -target bpfel -type control -type rules -type totals -type captured judge judge.bpf.c

// Limits of an analyzer.
const (
	MaxFilter   = 64   // octets of a filter's mask
	MaxCaptured = 1024 // frames that a capture holds
	MaxSnap     = 2048 // octets kept of a captured frame
)

// Filter accepts frames with masked octets equal to Data; Mask and Data have one length.
type Filter struct {
	Offset     uint32
	Mask, Data []byte
}

// Capture selects frames to keep.
type Capture struct {
	FrameIndex     uint64 // the first frame, counted from 0
	TestframeIndex uint64 // captured frames follow so many test frames
	WhenFull       bool   // stop when the buffer is full, instead of replacing the oldest frame
	Snap           uint32 // octets of each frame; 0 is MaxSnap
}

// Analyzer is the setting of a port's analyzer.
type Analyzer struct {
	Filter  *Filter  // nil: every stamped frame is a test frame
	Capture *Capture // nil is none
}

// Counts is an analyzer's account since its start. Octets include the FCS.
type Counts struct {
	Since                          time.Time
	Packets, Octets                uint64
	TestPackets, TestOctets        uint64
	Stamped, SequenceErrors        uint64
	Samples, Min, Max, Sum, Latest uint64 // latency in ns
	Negative                       uint64 // stamped later than received: the sender has another clock
	First, Last                    time.Time
	LastError                      *SequenceError
	Captured, CapturedOctets       uint64
}

// SequenceError is the last frame with an unexpected number.
type SequenceError struct {
	At                 time.Time
	Expected, Received uint64
}

// Frame is a captured frame. Size excludes the FCS.
type Frame struct {
	Number uint64
	At     time.Time
	Size   int
	Data   []byte
}

// analyzer is the program of one port, attached while the instrument is open.
type analyzer struct {
	objects judgeObjects
	link    link.Link

	mu      sync.Mutex // guards the fields below, not the maps
	setting *Analyzer
	bank    uint32
	since   time.Time
}

// programNeeds lists the requirements of the program.
var programNeeds = bpferr.Needs{Capabilities: bpferr.Standard, Kernel: "Linux 6.1 or later with CONFIG_BPF_JIT"}

func openAnalyzer(port *port) (*analyzer, error) {
	a := &analyzer{}
	if err := loadJudgeObjects(&a.objects, nil); err != nil {
		return nil, programNeeds.Fault("load analyzer", err)
	}
	err := port.config.Namespace.Do(func() (err error) {
		a.link, err = link.AttachXDP(link.XDPOptions{Program: a.objects.Judge, Interface: port.index, Flags: link.XDPDriverMode})
		return err
	})
	if err != nil {
		return nil, errors.Join(rejection(port.config, err), a.close())
	}
	return a, nil
}

func rejection(port Port, err error) error {
	err = fmt.Errorf("attach analyzer to %s in native XDP mode: %w", port.Device, err)
	switch {
	case errors.Is(err, unix.EBUSY), errors.Is(err, unix.EEXIST):
		return fault.Wrap(err, fault.Failed, "detach the XDP program of the device: ip -details link show "+port.Device)
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EINVAL):
		return fault.Wrap(err, fault.Testbed, "use a device with native XDP in its driver, such as veth")
	}
	return err
}

// set starts the analyzer anew, or stops it with nil.
func (a *analyzer) set(setting *Analyzer, tai int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if setting == nil {
		a.setting = nil
		return a.control(0)
	}
	bank := 1 - a.bank
	if err := a.objects.RuleBanks.Put(bank, rulesOf(setting, tai)); err != nil {
		return fmt.Errorf("set analyzer: %w", err)
	}
	if err := a.objects.TotalBanks.Put(bank, &judgeTotals{}); err != nil {
		return fmt.Errorf("set analyzer: %w", err)
	}
	a.bank, a.setting, a.since = bank, setting, time.Now()
	return a.control(1)
}

func (a *analyzer) control(enabled uint32) error {
	if err := a.objects.Controls.Put(uint32(0), &judgeControl{Enabled: enabled, Bank: a.bank}); err != nil {
		return fmt.Errorf("set analyzer: %w", err)
	}
	return nil
}

func rulesOf(setting *Analyzer, tai int64) *judgeRules {
	r := &judgeRules{Tai: tai}
	if f := setting.Filter; f != nil {
		r.Filter, r.FilterOffset, r.FilterLength = 1, f.Offset, uint32(len(f.Mask))
		words(r.Mask[:], f.Mask)
		words(r.Data[:], f.Data)
	}
	if c := setting.Capture; c != nil {
		r.Capture, r.FrameIndex, r.TestframeIndex, r.Snap = 1, c.FrameIndex, c.TestframeIndex, c.Snap
		if c.WhenFull {
			r.WhenFull = 1
		}
		if c.Snap == 0 || c.Snap > MaxSnap {
			r.Snap = MaxSnap
		}
	}
	return r
}

// words stores octets as the program loads them.
func words(to []uint64, octets []byte) {
	var padded [MaxFilter]byte
	copy(padded[:], octets)
	for i := range to {
		to[i] = binary.NativeEndian.Uint64(padded[8*i:])
	}
}

// counts reads the account; nil if the analyzer is off.
func (a *analyzer) counts() (*Counts, error) {
	a.mu.Lock()
	setting, bank, since := a.setting, a.bank, a.since
	a.mu.Unlock()
	if setting == nil {
		return nil, nil
	}
	var t judgeTotals
	if err := a.objects.TotalBanks.LookupWithFlags(bank, &t, ebpf.LookupLock); err != nil {
		return nil, fmt.Errorf("read analyzer: %w", err)
	}
	c := &Counts{
		Since: since, Packets: t.Pkts, Octets: t.Octets, TestPackets: t.TestPkts, TestOctets: t.TestOctets,
		Stamped: t.Numbered, SequenceErrors: t.SequenceErrors, Samples: t.Samples, Min: t.LatencyMin, Max: t.LatencyMax,
		Sum: t.LatencySum, Latest: t.LatencyLatest, Negative: t.Negative, Captured: t.Captured, CapturedOctets: t.CapturedOctets,
	}
	wall := wallClock()
	if t.TestPkts > 0 {
		c.First, c.Last = wall(t.First), wall(t.Last)
	}
	if t.SequenceErrors > 0 {
		c.LastError = &SequenceError{wall(t.ErrorAt), t.ErrorExpected, t.ErrorReceived}
	}
	return c, nil
}

// frames returns up to limit of the last captured frames, without frames that the BPF program
// overwrites during the read.
func (a *analyzer) frames(limit uint64) ([]Frame, error) {
	counts, err := a.counts()
	if err != nil || counts == nil {
		return nil, err
	}
	a.mu.Lock()
	bank := a.bank
	a.mu.Unlock()
	wall := wallClock()
	var all []Frame
	for which := counts.Captured - min(counts.Captured, limit, MaxCaptured); which < counts.Captured; which++ {
		var c judgeCaptured
		if err := a.objects.Frames.Lookup(bank*MaxCaptured+uint32(which%MaxCaptured), &c); err != nil {
			return nil, fmt.Errorf("read capture: %w", err)
		}
		if c.Number == which && c.Kept > 0 {
			all = append(all, Frame{Number: which, At: wall(c.At), Size: int(c.Size), Data: append([]byte(nil), c.Data[:min(c.Kept, MaxSnap)]...)})
		}
	}
	return all, nil
}

// wallClock maps CLOCK_MONOTONIC to wall-clock time.
func wallClock() func(uint64) time.Time {
	var monotonic unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &monotonic) // the clock exists
	now := time.Now()
	return func(ns uint64) time.Time { return now.Add(time.Duration(int64(ns) - monotonic.Nano())) }
}

func (a *analyzer) close() error {
	var all []error
	if a.link != nil {
		all = append(all, a.link.Close())
	}
	if err := errors.Join(append(all, a.objects.Close())...); err != nil {
		return fmt.Errorf("detach analyzer: %w", err)
	}
	return nil
}
