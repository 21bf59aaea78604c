// SPDX-License-Identifier: Apache-2.0

// Package xdp forwards packets in XDP by a plan, and leaves all others to the kernel.
//
// The table is a tree of blocks (lookup.h) that this process and the program share. A change is a
// few stores without a system call; each moves one entry from the old decision to the new one. Next
// hops of a decision change separately: the CPU gets the decision's packets until the last program
// that may read the old hop has ended.
//
// Pitfalls:
//   - VLAN tags must be in the frame. Receive offload of VLAN tags hides them, and such frames look
//     untagged. The module rejects such devices, but cannot see the peer of a veth.
//   - A veth drops redirected frames while its peer has neither NAPI (ethtool -K PEER gro on) nor
//     an XDP program. The module tests delivery and leaves such ports to the kernel.
//   - Forwarded packets bypass netfilter, qdiscs, sockets and packet captures.
//   - Without [Table.Renew] the CPU gets every packet when the lease ends.
package xdp
