// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"
)

// askHooks lists the capabilities for querying the programs of a hook.
var askHooks = []string{"CAP_NET_ADMIN"}

// CgroupHook probes a hook of the v2 tree by a query, which changes nothing.
func CgroupHook(kind ebpf.AttachType) error {
	name := kind.String()
	if kind == ebpf.AttachCGroupInetIngress {
		name = "CGroupInetIngress" // its number is 0, like that of no type
	}
	return need{askHooks, "CONFIG_CGROUP_BPF, and a mounted cgroup v2 tree"}.explain("cgroup hook "+name, func() error {
		groups, err := CgroupMounts()
		if err != nil {
			return err
		}
		if groups.Path == "" {
			return fmt.Errorf("no cgroup v2 tree: %w", unix.EOPNOTSUPP)
		}
		root, err := os.Open(groups.Path)
		if err != nil {
			return err
		}
		defer func() { _ = root.Close() }()
		_, err = link.QueryPrograms(link.QueryOptions{Target: int(root.Fd()), Attach: kind})
		if errors.Is(err, ebpf.ErrNotSupported) && (len(lacking(askHooks)) > 0 || inUserNamespace()) {
			return fmt.Errorf("%w: %w", unix.EPERM, err) // the answer hides whether it is supported
		}
		if errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("%w: %w", unix.EOPNOTSUPP, err)
		}
		return err
	}())
}

// TCPIterator probes BPF iterators over TCP sockets.
func TCPIterator() error {
	return need{bpfCapabilities, "CONFIG_DEBUG_INFO_BTF and CONFIG_BPF_JIT (Linux 5.9)"}.explain("iter/tcp", func() error {
		if err := rlimit.RemoveMemlock(); err != nil {
			return err
		}
		program, err := ebpf.NewProgramWithOptions(&ebpf.ProgramSpec{
			Type: ebpf.Tracing, AttachType: ebpf.AttachTraceIter, AttachTo: "tcp", License: "GPL",
			Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
		}, ebpf.ProgramOptions{LogDisabled: true})
		if err != nil {
			return err
		}
		return program.Close()
	}())
}

// CgroupMade probes programs that run at the creation of a cgroup.
func CgroupMade() error {
	return need{bpfCapabilities, "CONFIG_BPF_EVENTS and CONFIG_DEBUG_INFO_BTF (Linux 5.5)"}.explain("tp_btf/cgroup_mkdir", func() error {
		if err := rlimit.RemoveMemlock(); err != nil {
			return err
		}
		program, err := ebpf.NewProgramWithOptions(&ebpf.ProgramSpec{
			Type: ebpf.Tracing, AttachType: ebpf.AttachTraceRawTp, AttachTo: "cgroup_mkdir", License: "GPL",
			Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
		}, ebpf.ProgramOptions{LogDisabled: true})
		if err != nil {
			return err
		}
		defer func() { _ = program.Close() }()
		attached, err := link.AttachTracing(link.TracingOptions{Program: program})
		if err != nil {
			return err
		}
		return attached.Close()
	}())
}

// CongestionOps probes BPF congestion controls with links: it creates the struct_ops map and
// registers nothing.
func CongestionOps() error {
	return need{bpfCapabilities, "CONFIG_BPF_JIT and CONFIG_DEBUG_INFO_BTF (Linux 6.4)"}.explain("congestion control in BPF", func() error {
		if err := rlimit.RemoveMemlock(); err != nil {
			return err
		}
		kernel, err := btf.LoadKernelSpec()
		if err != nil {
			return fmt.Errorf("read the kernel's types: %w", err)
		}
		var ops *btf.Struct
		if err := kernel.TypeByName("tcp_congestion_ops", &ops); err != nil {
			return err
		}
		const withLink = 1 << 13 // BPF_F_LINK
		described, err := ebpf.NewMap(&ebpf.MapSpec{Name: "weir_probe", Type: ebpf.StructOpsMap, KeySize: 4, ValueSize: ops.Size,
			MaxEntries: 1, Flags: withLink, Key: &btf.Int{Size: 4}, Value: ops})
		if err != nil {
			return err
		}
		return described.Close()
	}())
}
