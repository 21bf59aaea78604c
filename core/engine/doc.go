// SPDX-License-Identifier: Apache-2.0

// Package engine applies policies to the host: it computes the difference to the active state,
// applies it, reports status, and releases it.
//
// The data planes are pinned, so limits outlive every process. Apply writes a journal before any
// change. After a crash the next command completes the journal, because every step is repeatable.
// One lock file serializes all changes.
package engine
