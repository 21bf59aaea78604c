// SPDX-License-Identifier: Apache-2.0

// Package plan decides which packets of a router a fast path - a NIC or XDP - may forward, and how:
// from a router's state and a policy it makes ports, next hops, and for every address either the
// next hop that the kernel would choose or the CPU. It is pure.
//
//	tables in the order of the rules --> layers --> trie --> decisions, aggregated or not --> backend
//
// The CPU is a decision like any other: where a route must not be offloaded, the trie says CPU at
// its prefix, so that no shorter prefix that is offloaded can hide it. Nothing that the kernel has
// no route for is ever anything but the CPU's.
//
// What bites: a Planner holds on to its State; change both together, by [Planner.Update].
package plan
