// SPDX-License-Identifier: Apache-2.0

package shape

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -cflags "-O2 -g -Wall -Werror -mcpu=v3 -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu" -target bpfel -no-global-types -type shaper_format -type shaper_flags -type shaper_config -type shaper_state -type shaper_flow -type shaper_notice -type shaper_settings -type shaper_counters shape shape.bpf.c
