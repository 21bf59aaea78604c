// SPDX-License-Identifier: Apache-2.0

// Package shape rate-limits devices and scopes by shaping (EDT): packets beyond the rate wait in
// the device's qdisc, up to a horizon beyond which they are dropped. Received packets are
// redirected to an ifb named weir-in and the device's index. shape.bpf.c states the algorithm.
//
// Pitfalls:
//   - All calls work on the calling thread's network namespace.
//   - The qdisc tree of a shaped device is replaced. [Host.Files] stores the former tree, which
//     comes back with the end of the limit; packets queued at that moment are lost.
//   - On a device with another qdisc owner ([Work.Shared]), packets of scopes wait in that owner's
//     tree.
package shape
