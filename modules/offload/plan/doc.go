// SPDX-License-Identifier: Apache-2.0

// Package plan decides which packets of a router a fast path (a NIC or XDP) may forward, and how.
// From a router's state and a policy it computes ports, next hops, and for every address the
// kernel's next hop or the CPU. It is pure.
//
//	tables in the order of the rules --> layers --> trie --> decisions, aggregated or not --> backend
//
// The CPU is a decision like any other: a route that must not be offloaded has the decision CPU in
// the trie, so no shorter offloaded prefix hides it. Addresses without a route always belong to the
// CPU.
//
// Pitfalls: a Planner refers to its State. Change both together: [Planner.Route],
// [Planner.Neighbor].
package plan
