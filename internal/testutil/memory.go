// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"bufio"
	"fmt"
	"os"
	"testing"

	"github.com/cilium/ebpf"
)

// MapMemory is how many octets a map takes on a machine of so many processors: an array with values
// for each is computed, of others the kernel tells.
func MapMemory(t testing.TB, m *ebpf.Map, processors int) (octets int) {
	t.Helper()
	if m.Type() == ebpf.PerCPUArray {
		return int(m.MaxEntries()) * int((m.ValueSize()+7)&^7) * processors
	}
	file, err := os.Open(fmt.Sprintf("/proc/self/fdinfo/%d", m.FD()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if _, err := fmt.Sscanf(lines.Text(), "memlock:\t%d", &octets); err == nil {
			if m.Type() == ebpf.PerCPUHash || m.Type() == ebpf.LRUCPUHash {
				octets *= processors / ebpf.MustPossibleCPU()
			}
			return octets
		}
	}
	t.Fatal("the kernel does not tell the memory of maps")
	return 0
}
