// SPDX-License-Identifier: Apache-2.0

// Package cni limits the attachments of containers for the CNI plugin weir (CNI specification 1.1).
//
// An attachment is a device of a container. Its limit is a scope of the engine with the owner cni:
// with mode shape the host end of the container's veth pair, where neither root in the container
// nor packets without a socket bypass it; with mode police the sockets of the container's network
// namespace. The scopes are pinned and journaled as those of a policy, so that no limit depends on
// the plugin's process.
//
// Directions are those of the container: its egress enters the host end of the veth pair.
package cni
