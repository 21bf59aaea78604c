// SPDX-License-Identifier: Apache-2.0

package bpffs

import "github.com/cilium/ebpf"

// Copy copies a map into one with at least the same capacity.
func Copy(from, to *ebpf.Map) error { return copyEntries[[]byte](from, to) }

// CopyEach is Copy for per-CPU maps.
func CopyEach[T any](from, to *ebpf.Map) error { return copyEntries[[]T](from, to) }

func copyEntries[V any](from, to *ebpf.Map) error {
	var key []byte
	var value V
	entries := from.Iterate()
	for entries.Next(&key, &value) {
		if err := to.Put(key, value); err != nil {
			return err
		}
	}
	return entries.Err()
}
