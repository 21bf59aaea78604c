// SPDX-License-Identifier: Apache-2.0

// Package prove tests whether the active policy keeps its promises, and which paths bypass it.
//
// It knows no module: module.Check describes the flow and the expected result. It sends its own
// short flows from inside each scope to a peer and measures the arriving traffic. The peer is a
// process in a network namespace of its own, or a remote host.
//
// Pitfalls:
//
//   - A slow flow proves nothing unless the same path carries more outside the scopes. Every path
//     with a rate under test is measured there first. If that is impossible, the capacity is
//     unknown.
//   - A scope may have other traffic meanwhile. The counters of the module are read at the start
//     and the end of every measurement.
//   - Prove only adds to the host: veth pairs and their addresses in a benchmark range, cgroups,
//     and, on the interface of a scope, a route, a neighbour and a program that redirects the
//     flows before the link.
package prove
