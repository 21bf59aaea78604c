// SPDX-License-Identifier: Apache-2.0

// Package hops finds the hop of a path that rewrites or bleaches a differentiated services code
// point (DSCP): packets whose hop limit ends on the way come back in ICMP errors, which quote the
// header as it came to that hop (RFC 792, RFC 4443).
//
// Pitfalls:
//   - A quote is what the hop's stack had when it gave up: a change between two hops was made by
//     the first where the packet left it, or by the second where it came in.
//   - Routers limit their ICMP errors, and some send none: a hop that is silent is told as that.
//   - The TCP probes of a path are connections with a port each, so that paths which share their
//     load by flow may differ from hop to hop; the datagrams of UDP are one flow.
//   - What the destination does with a DSCP is known where it sends an ICMP error, not where it
//     answers.
package hops
