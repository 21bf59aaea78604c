// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// AFXDP probes AF_XDP sockets in copy mode on a veth device: the mechanism of the link emulator.
func AFXDP() error {
	capabilities := append([]string{"CAP_NET_RAW"}, bpfCapabilities...)
	return need{capabilities, "CONFIG_XDP_SOCKETS (Linux 4.18)"}.explain("AF_XDP on veth", onVeth(bindXDP))
}

// bindXDP makes the smallest AF_XDP socket on queue 0 of a device. The receive ring gets nothing:
// no program redirects to it.
func bindXDP(index int) error {
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("AF_XDP socket: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	const frames, size = 4, 4096
	memory, err := unix.Mmap(-1, 0, frames*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return fmt.Errorf("frame memory: %w", err)
	}
	defer func() { _ = unix.Munmap(memory) }()
	area := unix.XDPUmemReg{Addr: uint64(uintptr(unsafe.Pointer(&memory[0]))), Len: frames * size, Size: size}
	if err := setXDP(fd, unix.XDP_UMEM_REG, unsafe.Pointer(&area), unsafe.Sizeof(area)); err != nil {
		return fmt.Errorf("register frame memory: %w", err)
	}
	for _, ring := range []int{unix.XDP_UMEM_FILL_RING, unix.XDP_UMEM_COMPLETION_RING, unix.XDP_RX_RING, unix.XDP_TX_RING} {
		if err := unix.SetsockoptInt(fd, unix.SOL_XDP, ring, frames); err != nil {
			return fmt.Errorf("make ring: %w", err)
		}
	}
	if err := unix.Bind(fd, &unix.SockaddrXDP{Flags: unix.XDP_COPY, Ifindex: uint32(index)}); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	return nil
}

func setXDP(fd, option int, value unsafe.Pointer, size uintptr) error {
	_, _, errno := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_XDP, uintptr(option), uintptr(value), size, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
