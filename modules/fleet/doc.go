// SPDX-License-Identifier: Apache-2.0

// Package fleet shares limits among the hosts of a fleet: the section fleet of the policy, and the
// daemon's work on each host.
//
//	host: counters -> member -> report ---\            /-- grant -> member -> rates of the module limit
//	                                       +- NATS  -+
//	server:                lead (leader, alloc, store)
//
// The work reads the counters of each limit that follows a shared limit, reports them to the
// leader, and sets the granted rates. Rates are leases that the kernel ends (modules/limit/lease),
// so a killed daemon, a dead leader or a lost network leave each host at its floor, the admitted
// guarantee.
//
// Pitfalls: without a running daemon nothing renews the rates. An apply that changes a limit sets
// it to the lowest rate until the next grant.
package fleet
