// SPDX-License-Identifier: Apache-2.0

// Package xsk sends and receives raw frames through AF_XDP sockets (linux/if_xdp.h), in pure Go and
// without allocation.
//
// A [Umem] is the memory of frames. A [Socket] is bound to one queue of a device and moves
// descriptors through four rings: fill and receive, transmit and completion. Sockets may share a
// Umem to forward frames without a copy. A [Redirect] is the XDP program that redirects a device's
// frames to sockets. Open sockets and redirects inside their network namespace, in netns.Do.
//
// Pitfalls:
//   - One thread owns a Umem and all its sockets: nothing here is safe for concurrent use.
//   - Frames on veth arrive with the sender's offloads. Switch tx checksumming off at the sender
//     ("tx off"): otherwise frames carry partial TCP and UDP checksums, which stay wrong after
//     transmission through a socket.
//   - In copy mode a sent frame occupies its buffer until the receiver has consumed it; then
//     [Socket.Reap] returns the buffer. SO_SNDBUF limits these frames, hence the large default.
//   - Transmitted frames bypass the qdisc. If the ring of its peer is full, veth returns EAGAIN
//     ([ErrAgain]) only on Linux 6.16 or later with a qdisc such as pfifo. Otherwise it drops the
//     frame (EBUSY, [ErrDropped]).
//   - veth carries frames only while both ends are up. Otherwise Kick returns [ErrDown], or the
//     frames are dropped.
package xsk

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -cflags "-O2 -g -Wall -Werror -mcpu=v3 -I/usr/include/x86_64-linux-gnu" -target bpfel redirect xsk.bpf.c
