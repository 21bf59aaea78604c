// SPDX-License-Identifier: Apache-2.0

// Package police limits traffic of local sockets to a bandwidth with eBPF programs on a cgroup,
// without a standing queue.
//
// A scope is traffic with a rate per direction: of a cgroup, a user, a socket mark, a network
// namespace, an interface or a remote prefix ([DataPlane.Assign]). Scopes can have parents, and a
// packet is charged to at most four scopes. [DataPlane] loads the programs, [DataPlane.Attach]
// attaches them to a cgroup, and [DataPlane.Adopt] paces TCP sockets that were open before.
// police.bpf.c describes the algorithm; tunables.go has its constants.
//
// Pitfalls: A socket stays in the cgroup in which it was opened when its process moves. Loopback
// traffic is exempt unless [Limit] has Loopback. Without [DataPlane.Pin] the limits end with the
// process.
package police
