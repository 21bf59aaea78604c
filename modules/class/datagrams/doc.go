// SPDX-License-Identifier: Apache-2.0

// Package datagrams holds UDP and QUIC of a cgroup in less than best effort: at a rate that a
// delay-based controller sets.
//
// Datagrams have no window of the kernel's, so their limit is a rate. It follows LEDBAT++
// (draft-irtf-iccrg-ledbat-plus-plus) with the additions of scavenger, the control of TCP
// connections in modules/cc: the rate is a window per round trip. Round trips are those of echo
// requests (ICMP, RFC 792 and 4443) to the peer with most octets, with the class of the command,
// while the command sends or receives datagrams.
package datagrams

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -cflags "-O2 -g -Wall -Werror -mcpu=v3 -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu" -target bpfel -type datagrams_limit -type datagrams_queue -type datagrams_peer datagrams datagrams.bpf.c
