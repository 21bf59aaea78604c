// SPDX-License-Identifier: Apache-2.0

// Package links gives the classes of a link separate queues: an HTB tree at the link's rate, with a
// program that selects the leaf by DSCP.
//
// Pitfalls:
//   - The rate is the rate on the wire. It must not exceed the capacity of the path: otherwise the
//     queue builds at a later hop without classes.
//   - Packets that bypass the qdisc bypass the classes: AF_XDP, XDP redirects, and packets
//     forwarded by a NIC.
//   - Packets queued while the tree is installed or removed are lost, as with all changes of
//     qdiscs.
//   - Only egress packets are queued.
package links
