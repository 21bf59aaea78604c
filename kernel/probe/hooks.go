// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

const (
	xdpDrop = 1
	xdpPass = 2
	tcxNext = -1
)

// XDPNative probes native XDP in the veth driver, where programs see frames before GRO.
func XDPNative() error {
	return need{bpfCapabilities, "CONFIG_BPF_SYSCALL and CONFIG_VETH (Linux 4.19)"}.explain("native XDP on veth",
		onVeth(func(index int) error { return attachXDP(index, link.XDPDriverMode) }))
}

// XDPGeneric probes generic XDP.
func XDPGeneric() error {
	return need{bpfCapabilities, "CONFIG_BPF_SYSCALL (Linux 4.12)"}.explain("generic XDP",
		onVeth(func(index int) error { return attachXDP(index, link.XDPGenericMode) }))
}

func attachXDP(index int, flags link.XDPAttachFlags) error {
	program, err := load(ebpf.XDP, xdpPass)
	if err != nil {
		return err
	}
	defer func() { _ = program.Close() }()
	attached, err := link.AttachXDP(link.XDPOptions{Program: program, Interface: index, Flags: flags})
	if err != nil {
		return err
	}
	return attached.Close()
}

// TCX probes BPF links at a device's ingress and egress, which need no clsact qdisc.
func TCX() error {
	return need{bpfCapabilities, "CONFIG_NET_XGRESS (Linux 6.6)"}.explain("TCX", onVeth(func(index int) error {
		program, err := load(ebpf.SchedCLS, tcxNext)
		if err != nil {
			return err
		}
		defer func() { _ = program.Close() }()
		attached, err := link.AttachTCX(link.TCXOptions{Interface: index, Program: program, Attach: ebpf.AttachTCXEgress})
		if err != nil {
			return err
		}
		return attached.Close()
	}))
}

// DeviceHook probes the hooks of kernel/device: TCX or clsact filters.
func DeviceHook() error {
	err := TCX()
	if err == nil || Qdisc("clsact") == nil && Classifier("bpf") == nil {
		return nil
	}
	return err
}

// LiveFrames probes BPF_F_TEST_XDP_LIVE_FRAMES, by which the fast generator creates frames.
func LiveFrames() error {
	return need{bpfCapabilities, "BPF_F_TEST_XDP_LIVE_FRAMES (CONFIG_PAGE_POOL, Linux 5.18)"}.explain("XDP live frames", onVeth(runLive))
}

func runLive(index int) error {
	program, err := load(ebpf.XDP, xdpDrop)
	if err != nil {
		return err
	}
	defer func() { _ = program.Close() }()
	const liveFrames = 1 << 1
	// struct xdp_md: data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex.
	const size = 64
	context := make([]byte, 0, 24)
	for _, field := range []uint32{0, size, 0, uint32(index), 0, 0} {
		context = append(context, byte(field), byte(field>>8), byte(field>>16), byte(field>>24))
	}
	result, err := program.Run(&ebpf.RunOptions{Data: make([]byte, size), Context: context, Repeat: 4, Flags: liveFrames})
	if errors.Is(err, ebpf.ErrNotSupported) {
		return fmt.Errorf("%w: %w", unix.EOPNOTSUPP, err)
	}
	if err == nil && result != 0 {
		err = fmt.Errorf("test run ended with %d", result)
	}
	return err
}
