// SPDX-License-Identifier: Apache-2.0

// Package load has programs for benchmarks of a fast path.
package load

import "github.com/cilium/ebpf"

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -cflags "-O2 -g -Wall -Werror -mcpu=v3 -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu" -target bpfel -no-global-types load load.bpf.c

// Lookups is the number of lookups per run of load_find and load_idle.
const Lookups = 64

// Spec returns the programs and maps, to be configured and loaded.
func Spec() (*ebpf.CollectionSpec, error) { return loadLoad() }
