// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// RefuseBPF makes the bpf system call fail with errno for this process and its children for good,
// as container runtimes do. It is for child processes of tests.
func RefuseBPF(errno unix.Errno) error {
	const loadWord, jumpEqual, result = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_RET | unix.BPF_K
	filter := []unix.SockFilter{
		{Code: loadWord, K: 0}, // the system call's number is the first field of struct seccomp_data
		{Code: jumpEqual, Jf: 1, K: unix.SYS_BPF},
		{Code: result, K: unix.SECCOMP_RET_ERRNO | uint32(errno)},
		{Code: result, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, failed := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(filter)
	if failed != 0 {
		return fmt.Errorf("set seccomp filter: %w", failed)
	}
	return nil
}
