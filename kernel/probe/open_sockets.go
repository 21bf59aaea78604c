// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"weir/kernel/rtnl"
)

// callbackFlags is TCP_BPF_SOCK_OPS_CB_FLAGS: the callbacks of a socket.
const callbackFlags = 1008

// OpenSockets probes whether an iterator over open TCP sockets can request their callbacks: it
// reads those of a socket of this process.
func OpenSockets() error {
	return need{bpfCapabilities, "CONFIG_DEBUG_INFO_BTF and CONFIG_BPF_JIT (Linux 6.12)"}.explain("callbacks of open sockets", func() error {
		if err := rlimit.RemoveMemlock(); err != nil {
			return err
		}
		result, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
		if err != nil {
			return err
		}
		defer func() { _ = result.Close() }()
		program, err := ebpf.NewProgramWithOptions(&ebpf.ProgramSpec{
			Type: ebpf.Tracing, AttachType: ebpf.AttachTraceIter, AttachTo: "tcp", License: "GPL", Instructions: readsCallbacks(result.FD()),
		}, ebpf.ProgramOptions{LogDisabled: true})
		if err != nil {
			return err
		}
		defer func() { _ = program.Close() }()
		if err := inNamespace(func(conn *rtnl.Conn) error { return visitOne(conn, program) }); err != nil {
			return err
		}
		var answer int64
		if err := result.Lookup(uint32(0), &answer); err != nil {
			return err
		}
		switch answer {
		case 0:
			return errors.New("the program met no socket")
		case 1:
			return nil
		}
		return fmt.Errorf("read callbacks of an open socket: %w: %w", unix.Errno(1-answer), ebpf.ErrNotSupported)
	}())
}

// readsCallbacks returns a program that stores the kernel's answer plus 1 in a map.
func readsCallbacks(result int) asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R1, asm.R1, 8, asm.DWord), // struct bpf_iter__tcp: sk_common
		asm.JEq.Imm(asm.R1, 0, "end"),
		asm.FnSkcToTcpSock.Call(),
		asm.JEq.Imm(asm.R0, 0, "end"),
		asm.Mov.Reg(asm.R1, asm.R0),
		asm.Mov.Imm(asm.R6, 0),
		asm.StoreMem(asm.RFP, -8, asm.R6, asm.DWord),
		asm.Mov.Imm(asm.R2, unix.SOL_TCP),
		asm.Mov.Imm(asm.R3, callbackFlags),
		asm.Mov.Reg(asm.R4, asm.RFP),
		asm.Add.Imm(asm.R4, -8),
		asm.Mov.Imm(asm.R5, 4),
		asm.FnGetsockopt.Call(),
		asm.Mov.Reg(asm.R7, asm.R0),
		asm.Add.Imm(asm.R7, 1),
		asm.StoreMem(asm.RFP, -8, asm.R6, asm.DWord),
		asm.LoadMapPtr(asm.R1, result),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -8),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "end"),
		asm.StoreMem(asm.R0, 0, asm.R7, asm.DWord),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("end"),
		asm.Return(),
	}
}

// visitOne runs the program over a listening socket in this namespace.
func visitOne(conn *rtnl.Conn, program *ebpf.Program) error {
	if err := conn.SetUp("lo"); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }()
	visits, err := link.AttachIter(link.IterOptions{Program: program})
	if err != nil {
		return err
	}
	defer func() { _ = visits.Close() }()
	reader, err := visits.Open()
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, reader)
	return errors.Join(err, reader.Close())
}
