// SPDX-License-Identifier: Apache-2.0

// Package xsk sends and receives raw frames through AF_XDP sockets (linux/if_xdp.h), in pure Go and
// without allocation.
//
// A [Umem] is the memory that frames live in; a [Socket] is bound to one queue of one device and
// moves descriptors of that memory through four rings: fill and receive, transmit and completion.
// Several sockets may share one Umem, so that a frame received on one is sent on another without a
// copy in this process. A [Redirect] is the XDP program that brings a device's frames to sockets.
// Sockets and redirects belong to the network namespace they are opened in: open them in netns.Do.
//
// What bites:
//   - One thread owns a Umem and all its sockets: nothing here is safe for concurrent use.
//   - Frames on veth arrive with whatever offloads the sender has on. Switch tx checksumming off
//     there ("tx off"), else TCP and UDP checksums are left half computed and are broken for good
//     once a frame leaves through a socket.
//   - In copy mode a frame that was sent stays "in flight" until its receiver has consumed it:
//     [Socket.Reap] brings its buffer back only then. SO_SNDBUF bounds these frames too, hence the
//     large default.
//   - A transmitted frame goes around the device's queueing discipline. veth still pushes back
//     (EAGAIN, [ErrAgain]) when its peer's ring is full, but only on Linux 6.16 or later and with a
//     queueing discipline such as pfifo present; otherwise the frame is dropped (EBUSY,
//     [ErrDropped]).
//   - veth carries frames only while both of its ends are up: otherwise Kick says [ErrDown] or the
//     frames are dropped.
package xsk

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -cflags "-O2 -g -Wall -Werror -mcpu=v3 -I/usr/include/x86_64-linux-gnu" -target bpfel redirect xsk.bpf.c
