// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"bufio"
	"fmt"
	"os"
	"testing"

	"github.com/cilium/ebpf"
)

// hashEntry is the kernel's overhead in bytes of a hash table's entry beside key and value;
// spareEntry is a pointer to the spare entry of a CPU.
const hashEntry, spareEntry = 48, 8

// MapMemory returns the bytes of a map on a machine with the given number of CPUs. A per-CPU array
// is computed. Other maps are read from the kernel, and the share of the additional CPUs is added:
// values in hash tables, or one spare entry per CPU.
func MapMemory(t testing.TB, m *ebpf.Map, processors int) (octets int) {
	t.Helper()
	key, value := int((m.KeySize()+7)&^7), int((m.ValueSize()+7)&^7)
	more := processors - ebpf.MustPossibleCPU()
	switch m.Type() {
	case ebpf.PerCPUArray:
		return int(m.MaxEntries()) * value * processors
	case ebpf.PerCPUHash:
		return told(t, m) + int(m.MaxEntries())*value*more
	case ebpf.Hash:
		return told(t, m) + (hashEntry+key+value+spareEntry)*more
	}
	return told(t, m)
}

func told(t testing.TB, m *ebpf.Map) (octets int) {
	t.Helper()
	file, err := os.Open(fmt.Sprintf("/proc/self/fdinfo/%d", m.FD()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if _, err := fmt.Sscanf(lines.Text(), "memlock:\t%d", &octets); err == nil {
			return octets
		}
	}
	t.Fatal("the kernel does not report the memory of maps")
	return 0
}
