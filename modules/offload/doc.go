// SPDX-License-Identifier: Apache-2.0

// Package offload has the packets of a router forwarded by a fast path, which decides as the
// kernel's routing does and leaves to the kernel whatever it is not sure of. It is the room of the
// policy's section offload.
//
//	kernel --netlink--> live --> state --> plan --> xdp
//	                               |        |        |
//	                               +--> simulate <---+   verify
//
// What bites: the fast path is believed for [Lease] at a time. Whoever follows the kernel's routing
// renews it; weir daemon does. Without a follower every packet is the kernel's again.
package offload
