// SPDX-License-Identifier: Apache-2.0

// Package engine makes the host do what a policy says: desired state, difference, apply, release.
//
// The data plane is pinned, so limits outlive every process. Apply writes a journal before it
// changes anything; whoever comes next after a crash completes what the journal says, since every
// step can be repeated. One lock file serializes all of it.
package engine
