// SPDX-License-Identifier: Apache-2.0

// Package bpfmap writes entries of BPF maps.
package bpfmap

import (
	"errors"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Put stores an entry. LPM tries allocate from a small cache that the kernel refills in the
// background: ENOMEM may mean an empty cache, so Put retries for one second.
func Put(m *ebpf.Map, key, value any) error {
	for deadline := time.Now().Add(time.Second); ; time.Sleep(time.Millisecond) {
		if err := m.Put(key, value); !errors.Is(err, unix.ENOMEM) || time.Now().After(deadline) {
			return err
		}
	}
}
