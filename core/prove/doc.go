// SPDX-License-Identifier: Apache-2.0

// Package prove tests whether the active policy has the configured effect, and which paths bypass
// it. The promise of a check is the configured value.
//
// The package imports no module: module.Check describes the flow and the expected result. Short
// test flows run from inside each scope to a peer, which measures the received traffic. The peer is
// a process in its own network namespace, or a remote host.
//
// Pitfalls:
//
//   - A slow flow proves a limit only if the same path carries more outside all scopes. Before a
//     rate is tested, its path is therefore measured outside all scopes. If this is impossible, the
//     capacity is unknown.
//   - A scope may have other traffic during a measurement. The counters of the module are read at
//     the start and the end of every measurement.
//   - The package only adds objects to the host: veth pairs with benchmark addresses, cgroups,
//     and, on the interface of a scope, a route, a neighbour and a program that redirects the
//     flows before the link.
package prove
