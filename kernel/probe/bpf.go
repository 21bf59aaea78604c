// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/rlimit"

	"weir/internal/fault"
)

// BPF probes the bpf system call by loading a minimal program.
func BPF() error {
	program, err := load(ebpf.XDP, 2)
	if err == nil {
		_ = program.Close()
	}
	return need{bpfCapabilities, "CONFIG_BPF_SYSCALL"}.explain("bpf system call", err)
}

// load loads a program that returns a constant.
func load(kind ebpf.ProgramType, result int32) (*ebpf.Program, error) {
	return assemble(kind, asm.Instructions{asm.Mov.Imm(asm.R0, result), asm.Return()})
}

// assemble loads a program of the instructions.
func assemble(kind ebpf.ProgramType, instructions asm.Instructions) (*ebpf.Program, error) {
	if err := rlimit.RemoveMemlock(); err != nil { // Linux before 5.11 counts maps against it
		return nil, err
	}
	return ebpf.NewProgramWithOptions(&ebpf.ProgramSpec{
		Type:         kind,
		License:      "GPL",
		Instructions: instructions,
	}, ebpf.ProgramOptions{LogDisabled: true})
}

// programs lists the program types of Weir's data planes and the kernel option of each.
var programs = []struct {
	name   string
	kind   ebpf.ProgramType
	option string
}{
	{"xdp", ebpf.XDP, "CONFIG_BPF_SYSCALL (Linux 4.8)"},
	{"sched_cls", ebpf.SchedCLS, "CONFIG_NET_CLS_ACT or CONFIG_NET_CLS_BPF"},
	{"cgroup_skb", ebpf.CGroupSKB, "CONFIG_CGROUP_BPF"},
	{"sock_ops", ebpf.SockOps, "CONFIG_CGROUP_BPF (Linux 4.13)"},
	{"struct_ops", ebpf.StructOps, "CONFIG_BPF_JIT and CONFIG_DEBUG_INFO_BTF (Linux 5.6)"},
	{"lwt_xmit", ebpf.LWTXmit, "CONFIG_LWTUNNEL_BPF"},
	{"lwt_seg6local", ebpf.LWTSeg6Local, "CONFIG_IPV6_SEG6_BPF"},
	{"tracing", ebpf.Tracing, "CONFIG_DEBUG_INFO_BTF, CONFIG_BPF_JIT and CONFIG_FUNCTION_TRACER (fentry, Linux 5.5)"},
	{"raw_tracepoint", ebpf.RawTracepoint, "CONFIG_BPF_EVENTS"},
}

// ProgramType probes whether the kernel loads BPF programs of a type.
func ProgramType(kind ebpf.ProgramType) error {
	option := "BPF programs of type " + kind.String()
	for _, program := range programs {
		if program.kind == kind {
			option = program.option
		}
	}
	return need{bpfCapabilities, option}.explain("BPF program type "+kind.String(), features.HaveProgramType(kind))
}

// maps lists the less common map types of Weir's data planes.
var maps = []struct {
	name   string
	kind   ebpf.MapType
	option string
}{
	{"xskmap", ebpf.XSKMap, "CONFIG_XDP_SOCKETS (Linux 4.18)"},
	{"devmap", ebpf.DevMap, "CONFIG_BPF_SYSCALL (Linux 4.14)"},
	{"cpumap", ebpf.CPUMap, "CONFIG_BPF_SYSCALL (Linux 4.15)"},
	{"lpm_trie", ebpf.LPMTrie, "CONFIG_BPF_SYSCALL (Linux 4.11)"},
	{"ringbuf", ebpf.RingBuf, "CONFIG_BPF_SYSCALL (Linux 5.8)"},
	{"sk_storage", ebpf.SkStorage, "CONFIG_BPF_SYSCALL and CONFIG_DEBUG_INFO_BTF (Linux 5.2)"},
	{"cgrp_storage", ebpf.CgroupStorage, "CONFIG_CGROUP_BPF (Linux 6.2)"},
}

// MapType probes BPF maps of a type.
func MapType(kind ebpf.MapType) error {
	option := "BPF maps of type " + kind.String()
	for _, m := range maps {
		if m.kind == kind {
			option = m.option
		}
	}
	return need{bpfCapabilities, option}.explain("BPF map type "+kind.String(), features.HaveMapType(kind))
}

// BTF probes the kernel's type information, which programs need to read kernel structures.
func BTF() error {
	_, err := btf.LoadKernelSpec()
	return need{nil, "CONFIG_DEBUG_INFO_BTF"}.explain("BTF of the kernel", err)
}

// schBPF looks for the kernel's struct_ops type of BPF qdiscs.
func schBPF() error {
	return need{bpfCapabilities, "CONFIG_NET_SCH_BPF (Linux 6.16)"}.explain("qdisc in BPF", func() error {
		kernel, err := btf.LoadKernelSpec()
		if err != nil {
			return fmt.Errorf("read the kernel's types: %w", err)
		}
		var structure *btf.Struct
		return kernel.TypeByName("bpf_struct_ops_Qdisc_ops", &structure)
	}())
}

// JIT probes whether BPF programs are compiled to machine code.
func JIT() error {
	const file = "/proc/sys/net/core/bpf_jit_enable"
	content, err := os.ReadFile(file)
	if err == nil && strings.TrimSpace(string(content)) == "0" {
		return fault.New(fault.Testbed, "sysctl -w net.core.bpf_jit_enable=1", "BPF JIT: switched off")
	}
	if errors.Is(err, fs.ErrNotExist) { // as in all network namespaces except the initial one
		err = compiled()
	}
	return need{[]string{"CAP_SYS_ADMIN"}, "CONFIG_BPF_JIT"}.explain("BPF JIT", err)
}

// compiled loads a program and checks for its machine code.
func compiled() error {
	program, err := load(ebpf.XDP, 2)
	if err != nil {
		return fmt.Errorf("load a program: %w", err)
	}
	defer func() { _ = program.Close() }()
	info, err := program.Info()
	if err != nil {
		return fmt.Errorf("read the program back: %w", err)
	}
	if size, err := info.JitedSize(); err != nil || size == 0 {
		return errors.Join(errors.New("programs are interpreted"), err)
	}
	return nil
}
