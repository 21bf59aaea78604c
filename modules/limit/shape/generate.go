// SPDX-License-Identifier: Apache-2.0

package shape

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -cflags "-O2 -g -Wall -Werror -mcpu=v3 -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu" -target bpfel -no-global-types -type delay_format -type delay_flags -type delay_config -type delay_state -type delay_flow -type delay_notice -type delay_settings -type delay_counters delay delay.bpf.c
