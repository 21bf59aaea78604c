// SPDX-License-Identifier: Apache-2.0

package rib

import "unsafe"

// A chunk of a vector has 4,096 elements.
const (
	chunkBits = 12
	chunkSize = 1 << chunkBits
	chunkMask = chunkSize - 1
)

// vector is a growing array in chunks: growth copies nothing and leaves no garbage.
type vector[T any] struct {
	chunks []*[chunkSize]T
	n      uint32
}

func (v *vector[T]) at(i uint32) *T { return &v.chunks[i>>chunkBits][i&chunkMask] }

func (v *vector[T]) push(value T) uint32 {
	i := v.n
	if i&chunkMask == 0 {
		v.chunks = append(v.chunks, new([chunkSize]T))
	}
	v.n++
	*v.at(i) = value
	return i
}

func (v *vector[T]) bytes() int64 {
	return int64(len(v.chunks)) * int64(unsafe.Sizeof([chunkSize]T{}))
}
