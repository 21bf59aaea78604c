// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"bufio"
	"fmt"
	"os"
	"testing"

	"github.com/cilium/ebpf"
)

// hashEntry is what the kernel keeps of an entry of a hash table beside key and value, in octets,
// and spareEntry a pointer to one that a processor has in reserve.
const hashEntry, spareEntry = 48, 8

// MapMemory is how many octets a map takes on a machine of so many processors. An array with values
// for each is computed; of others the kernel tells what they take here, and what more processors
// take is added: values in hash tables, or the entry that each has in reserve.
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
