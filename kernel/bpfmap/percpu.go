// SPDX-License-Identifier: Apache-2.0

package bpfmap

import (
	"fmt"
	"reflect"
	"unsafe"

	"github.com/cilium/ebpf"
)

// Sum returns an entry of a per-CPU map, added up over all CPUs. T is uint64 or a structure with
// uint64 counters only.
func Sum[T any](m *ebpf.Map, key any) (total T, err error) {
	var each []T
	if err := m.Lookup(key, &each); err != nil {
		return total, err
	}
	return Total(each), nil
}

// Total adds up the counters of all CPUs. It panics if T has a field that is no uint64.
func Total[T any](each []T) (total T) {
	if !counters(reflect.TypeFor[T]()) {
		panic(fmt.Sprintf("bpfmap: %T has fields that are no uint64", total))
	}
	sum := Words(&total)
	for i := range each {
		for n, count := range Words(&each[i]) {
			sum[n] += count
		}
	}
	return total
}

// Words returns the counters of a structure with uint64 counters only, in the order of its fields.
func Words[T any](of *T) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(of)), unsafe.Sizeof(*of)/8)
}

// Clear sets the counters of an entry to zero on all CPUs.
func Clear[T any](m *ebpf.Map, key any) error {
	return m.Put(key, make([]T, ebpf.MustPossibleCPU()))
}

// counters reports whether a type consists of uint64.
func counters(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Uint64:
		return true
	case reflect.Array:
		return counters(t.Elem())
	case reflect.Struct:
		for field := range t.Fields() {
			if field.Type.Size() > 0 && !counters(field.Type) {
				return false
			}
		}
		return true
	}
	return false
}
