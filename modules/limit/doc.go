// SPDX-License-Identifier: Apache-2.0

// Package limit holds traffic to a bandwidth with eBPF, without the standing queue of a shaper.
//
// A scope is traffic with a rate per direction: of a cgroup, a user, a socket mark, a network
// namespace, an interface or a remote prefix ([DataPlane.Assign]). Scopes can have parents, and a
// packet is charged to at most four. [DataPlane] loads the programs, and [DataPlane.Attach] puts
// them on a cgroup, whose sockets they cover from then on, with those of all cgroups below;
// [DataPlane.Adopt] paces TCP sockets that were open before. limit.bpf.c states the algorithm,
// tunables.go has its constants.
//
// What will bite you: a socket keeps the cgroup it was opened in when its process moves. Loopback
// is not charged unless asked. Without a pin, the limit ends with the process that holds the
// DataPlane.
package limit
