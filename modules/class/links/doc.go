// SPDX-License-Identifier: Apache-2.0

// Package links gives the classes of service queues of their own on links whose rate is known: a
// tree of token buckets (HTB) whose leaves a program chooses by the DSCP.
//
// Pitfalls:
//   - The rate is of the wire. The queue must form here: a rate above what the link carries leaves
//     it to whatever is behind, which knows no classes.
//   - What passes no qdisc passes no queue: AF_XDP, XDP's redirects, and what a NIC forwards by
//     itself.
//   - A packet that waits while the tree is put in place or taken away is lost, as with any change
//     of a qdisc.
//   - Only packets that leave are queued. What comes in has waited elsewhere.
package links
