// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"weir/internal/fault"
	"weir/modules/ioam/collect"
)

// Reader reads records of the data plane. Only one may exist at a time. It is not safe for
// concurrent use.
type Reader struct {
	alone  *os.File // locked; nil in tests
	ring   *ringbuf.Reader
	clock  collect.Clock
	schema uint32 // of opaque state that is the context of a socket
	raw    ringbuf.Record
}

// OpenRecords opens the records of the active policy with pins in a folder.
func OpenRecords(pins string) (*Reader, error) {
	ring, err := ebpf.LoadPinnedMap(filepath.Join(pins, mapPin(ioamMapIoamRecords)), nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.Usage, "apply one with a section ioam: weir apply POLICY", "no policy with IOAM is active")
	}
	if err != nil {
		return nil, programNeeds.Fault("open records", err)
	}
	defer func() { _ = ring.Close() }()
	node, err := ebpf.LoadPinnedMap(filepath.Join(pins, mapPin(ioamMapIoamNode)), nil)
	if err != nil {
		return nil, programNeeds.Fault("open node", err)
	}
	defer func() { _ = node.Close() }()
	alone, err := lockRecords(pins)
	if err != nil {
		return nil, err
	}
	r, err := newReader(ring, node)
	if err != nil {
		return nil, errors.Join(err, alone.Close())
	}
	r.alone = alone
	return r, nil
}

// lockRecords excludes other readers, which would each get a part of the records.
func lockRecords(pins string) (*os.File, error) {
	folder, err := os.Open(pins)
	if err != nil {
		return nil, programNeeds.Fault("lock records", err)
	}
	err = unix.Flock(int(folder.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return folder, nil
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = fault.New(fault.Usage, "end the other weir ioam watch or weir ioam path, or wait for it", "another command reads the records of IOAM: each would get a part of them")
	}
	return nil, errors.Join(err, folder.Close())
}

func newReader(ring, node *ebpf.Map) (*Reader, error) {
	var s ioamIoamSettings
	if err := node.Lookup(uint32(0), &s); err != nil {
		return nil, fmt.Errorf("read node: %w", err)
	}
	r := &Reader{clock: collect.POSIX, schema: s.Schema}
	for name, clock := range clocks {
		if uint32(clock) == s.Clock {
			r.clock = collect.Clock(name)
		}
	}
	var err error
	if r.ring, err = ringbuf.NewReader(ring); err != nil {
		return nil, fmt.Errorf("open records: %w", err)
	}
	return r, nil
}

// Close closes the reader.
func (r *Reader) Close() error {
	err := r.ring.Close()
	if r.alone != nil {
		err = errors.Join(err, r.alone.Close())
	}
	return err
}

// pollEvery is the polling interval of the ring buffer: wakeups by the programs would cost more
// than the record.
const pollEvery = 10 * time.Millisecond

// Read waits for the next record until the context ends. Reading may continue after [ErrRecord].
func (r *Reader) Read(ctx context.Context, into *collect.Record) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if is, err := r.Next(into); is || err != nil {
			return err
		}
	}
}

// Next is Read with a short wait; it reports whether there was a record.
func (r *Reader) Next(into *collect.Record) (is bool, err error) {
	r.ring.SetDeadline(time.Now().Add(pollEvery))
	err = r.ring.ReadInto(&r.raw)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read records: %w", err)
	}
	if err := decodeRecord(r.clock, r.raw.RawSample, into); err != nil {
		return true, err
	}
	into.TakeContext(r.schema)
	return true, nil
}

// ErrRecord is returned for an invalid record.
var ErrRecord = errors.New("invalid record")

// contextOf reads a trace context.
func contextOf(octets []byte) (collect.TraceContext, error) {
	var c ioamIoamContext
	if len(octets) < int(unsafe.Sizeof(c)) {
		return collect.TraceContext{}, fmt.Errorf("%w: %d octets of a trace context", ErrRecord, len(octets))
	}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&c)), unsafe.Sizeof(c)), octets)
	return collect.TraceContext{Version: c.Version, Trace: c.Trace, Parent: c.Parent, Flags: c.Flags}, nil
}

// decodeRecord decodes a record of the programs.
func decodeRecord(clock collect.Clock, raw []byte, into *collect.Record) (err error) {
	const size = int(unsafe.Sizeof(ioamIoamRecord{}))
	if len(raw) < size {
		return fmt.Errorf("%w: %d octets", ErrRecord, len(raw))
	}
	var c ioamIoamRecord
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&c)), size), raw)
	if len(raw) < size+int(c.Header) {
		return fmt.Errorf("%w: %d octets of headers, it states %d", ErrRecord, len(raw)-size, c.Header)
	}
	octets, behind := raw[size:size+int(c.Header)], raw[size+int(c.Header):]
	*into = collect.Record{
		Time: int64(c.Time), FlowLabel: c.FlowLabel, TrafficClass: c.TrafficClass, HopLimit: c.HopLimit, Interface: c.Interface, Length: c.Length,
		Flow: collect.Flow{Source: netip.AddrFrom16(c.Source), Destination: netip.AddrFrom16(c.Destination), SourcePort: c.SourcePort,
			DestinationPort: c.DestinationPort, Protocol: c.Protocol},
		Proof:  [4]string{"", "holds", "does not hold", "replayed"}[min(c.Proof, 3)],
		Looped: c.Kind == uint8(ioamIoamRecordKindIOAM_RECORD_LOOPED),
	}
	if c.Kind&uint8(ioamIoamRecordKindIOAM_RECORD_CONTEXT) != 0 {
		if into.Context, err = contextOf(behind); err != nil {
			return err
		}
	}
	if c.Kind == uint8(ioamIoamRecordKindIOAM_RECORD_POSTCARD) {
		err = into.DecodePostcard(clock, octets)
	} else {
		err = into.Decode(clock, c.NextHeader, octets)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRecord, err)
	}
	return nil
}
