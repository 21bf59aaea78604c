// SPDX-License-Identifier: Apache-2.0

package node

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -cflags "-O2 -g -Wall -Werror -mcpu=v3 -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu" -target bpfel -type ioam_bounds -type ioam_role -type ioam_namespace_flag -type ioam_count -type ioam_clock -type ioam_settings -type ioam_interface -type ioam_proof -type ioam_proof_window -type ioam_namespace -type ioam_item_kind -type ioam_flag -type ioam_item -type ioam_encap -type ioam_sampling -type ioam_scope -type ioam_scope_counts -type ioam_record_kind -type ioam_record -type ioam_template -type ioam_context -type ioam_edge_key -type ioam_edge_sent -type ioam_edge_received -type ioam_socket_option ioam ioam.bpf.c
//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -cflags "-O2 -g -Wall -Werror -mcpu=v3 -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu" -target bpfel socket socket.bpf.c
