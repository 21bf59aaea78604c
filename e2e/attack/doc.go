// SPDX-License-Identifier: Apache-2.0

// Package attack has an unprivileged user go against a daemon by every means that he has, and
// counts at the far end of the link.
package attack
