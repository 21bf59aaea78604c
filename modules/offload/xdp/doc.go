// SPDX-License-Identifier: Apache-2.0

// Package xdp forwards packets in XDP as a plan says, and leaves all others to the kernel.
//
// The table is a tree of blocks (lookup.h) that this process and the program share: a change is a
// few stores, without a system call, each of which takes one entry from the old decision to the new
// one. What a decision means (its next hop) is changed apart from it: the packets of a decision go
// to the CPU until the last program that may still read the old one has ended.
//
// What bites:
//   - Tags must be in the frame: receive offload of VLAN tags hides them, and what hides is taken
//     for untagged. [Table.Attach] refuses such devices; the sender's end of a veth it cannot see.
//   - veth drops what is redirected to it while its peer has neither NAPI (ethtool -K PEER gro on)
//     nor an XDP program.
//   - What is forwarded passes no netfilter rule, no qdisc, no socket and no packet capture.
//   - The lease: without [Table.Renew] every packet is the CPU's again after its time.
package xdp
