// SPDX-License-Identifier: Apache-2.0

// Package shape limits the rate of devices and scopes by shaping (EDT): packets above the rate wait
// in the qdisc of the device. Packets that would wait longer than the horizon are dropped. Received
// packets are redirected to an ifb, named weir-in with the index of the device. shape.bpf.c
// describes the algorithm.
//
// Pitfalls:
//   - All calls work on the calling thread's network namespace.
//   - The qdisc tree of a shaped device is replaced. [Host.Files] stores the original tree, which
//     is restored when the limit ends; packets in the queue at that moment are lost.
//   - If a device has another qdisc owner ([Work.Shared]), packets of scopes wait in the tree of
//     that owner.
package shape
