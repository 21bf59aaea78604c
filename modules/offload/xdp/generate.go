// SPDX-License-Identifier: Apache-2.0

package xdp

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -cflags "-O2 -g -Wall -Werror -mcpu=v3 -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu" -target bpfel -no-global-types -type fast_input -type fast_hop -type fast_next -type fast_count -type fast_bounds -type fast_flags -type fast_reason -type fast_entry fast fast.bpf.c
