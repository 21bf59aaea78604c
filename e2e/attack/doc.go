// SPDX-License-Identifier: Apache-2.0

// Package attack lets an unprivileged user attack a daemon by every available means, and counts at
// the far end of the link.
package attack
