// SPDX-License-Identifier: Apache-2.0

// Package bpfcheck holds one test and no code: it loads every BPF object of the tree through the
// verifier of the running kernel and attaches it. It skips a program if a probe finds that the
// kernel lacks its type.
package bpfcheck
