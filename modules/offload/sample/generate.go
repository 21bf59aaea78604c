// SPDX-License-Identifier: Apache-2.0

package sample

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -cflags "-O2 -g -Wall -Werror -mcpu=v3 -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu" -target bpfel -no-global-types -type sample_place -type sample_state -type sample_bounds sample sample.bpf.c
