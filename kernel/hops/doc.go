// SPDX-License-Identifier: Apache-2.0

// Package hops finds the hop of a path that changes or removes a differentiated services code
// point (DSCP). A packet with an expired hop limit returns in an ICMP error, which quotes the
// header as received at that hop (RFC 792, RFC 4443).
//
// Pitfalls:
//   - A quote is the packet in the hop's stack: a change between two hops was made by the first at
//     its egress, or by the second at its ingress.
//   - Routers limit their ICMP errors, and some send none: such a hop is reported as silent.
//   - Each TCP probe has its own port, so load balancing by flow may send probes along different
//     paths; UDP datagrams are one flow.
//   - The DSCP at the destination is known if it sends an ICMP error, and unknown if it answers.
package hops
