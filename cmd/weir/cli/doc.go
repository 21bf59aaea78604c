// SPDX-License-Identifier: Apache-2.0

// Package cli holds the parts that all commands share: global flags, exit status, errors with
// advice, output as text or JSON, and the files and bundles that commands write.
package cli
