// SPDX-License-Identifier: Apache-2.0

// Package bpfmap knows what BPF maps ask of those who fill them.
package bpfmap

import (
	"errors"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Put stores an entry. Maps of prefixes take memory from a small stock that the kernel fills up in
// the background: that one finds it empty (ENOMEM) says nothing of the machine's memory, and is
// tried again for a second.
func Put(m *ebpf.Map, key, value any) error {
	for deadline := time.Now().Add(time.Second); ; time.Sleep(time.Millisecond) {
		if err := m.Put(key, value); !errors.Is(err, unix.ENOMEM) || time.Now().After(deadline) {
			return err
		}
	}
}
