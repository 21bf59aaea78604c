// SPDX-License-Identifier: Apache-2.0

// Package daemon keeps a policy active: it follows the policy file, cgroups, devices and network
// namespaces, runs the background work of modules, and serves the API and metrics.
//
// Pitfalls: the limits outlive the daemon. It holds the state folder's lease, not its lock, so
// other commands can apply and release at any time, and the daemon resyncs afterwards.
package daemon
