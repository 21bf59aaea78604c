// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Pin keeps the calling thread on the given CPUs; an empty list changes nothing.
func Pin(cpus []int) error {
	if len(cpus) == 0 {
		return nil
	}
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("keep generator on CPUs %v: %w", cpus, err)
	}
	return nil
}
