// SPDX-License-Identifier: Apache-2.0

// Package offload forwards packets of a router by a fast path: XDP or tc flower. The fast path
// decides as the kernel's routing does, and passes every other packet to the kernel. It is the
// module of the policy's section offload.
//
//	kernel --netlink--> live --> state --> plan --> xdp, flower
//	                               |        |        |
//	                               +--> simulate <---+   verify
//
// Pitfalls: the fast path is valid for one [Lease]. A follower of the kernel's routing renews it,
// as weir daemon does. Without a follower the kernel gets every packet.
package offload
