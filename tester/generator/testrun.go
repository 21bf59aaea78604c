// SPDX-License-Identifier: Apache-2.0

package generator

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// runAttributes are the fields of union bpf_attr (linux/bpf.h) for BPF_PROG_TEST_RUN.
type runAttributes struct {
	program, verdict, sizeIn, sizeOut uint32
	dataIn, dataOut                   uint64
	repeat, duration                  uint32
	contextSizeIn, contextSizeOut     uint32
	contextIn, contextOut             uint64
	flags, cpu, batch, unused         uint32
}

// xdpContext is struct xdp_md (linux/bpf.h).
type xdpContext struct {
	_       uint32 // data
	dataEnd uint32
	_       uint32 // data_meta
	ifindex uint32 // ingress_ifindex
	_       [2]uint32
}

const (
	commandTestRun = 10     // BPF_PROG_TEST_RUN
	liveFrames     = 1 << 1 // BPF_F_TEST_XDP_LIVE_FRAMES
)

// runLive runs an XDP program once per slot on copies of data and applies its verdicts at a device
// of the calling thread's namespace. It calls bpf(2) itself because the library restarts after a
// signal, and a signal is how a run is stopped (EINTR).
func runLive(program int, data []byte, ifindex int, slots uint32, batch int) error {
	var pins runtime.Pinner
	defer pins.Unpin()
	context := &xdpContext{dataEnd: uint32(len(data)), ifindex: uint32(ifindex)}
	pins.Pin(context)
	pins.Pin(&data[0])
	attributes := &runAttributes{
		program: uint32(program), sizeIn: uint32(len(data)), dataIn: address(&data[0]), repeat: slots,
		contextSizeIn: uint32(unsafe.Sizeof(*context)), contextIn: address(context), flags: liveFrames, batch: uint32(batch),
	}
	_, _, errno := unix.Syscall(unix.SYS_BPF, commandTestRun, uintptr(unsafe.Pointer(attributes)), unsafe.Sizeof(*attributes))
	if errno != 0 {
		return errno
	}
	return nil
}

func address[T any](p *T) uint64 { return uint64(uintptr(unsafe.Pointer(p))) }

// LiveFrames probes whether this kernel runs XDP programs on live frames (Linux 5.18, with a BPF
// JIT); nil means yes. It takes some 30 ms because the kernel waits for a grace period.
func LiveFrames() error {
	spec, err := loadGenerator()
	if err != nil {
		return fmt.Errorf("probe live frames: %w", err)
	}
	var objects generatorObjects
	if err := spec.LoadAndAssign(&objects, nil); err != nil {
		return fmt.Errorf("probe live frames: load generator: %w", err)
	}
	defer func() { _ = objects.Close() }()
	const loopback = 1
	err = runLive(objects.Probe.FD(), make([]byte, headSize), loopback, 1, 1)
	if err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("probe live frames (Linux 5.18): %w", err)
	}
	return nil
}
