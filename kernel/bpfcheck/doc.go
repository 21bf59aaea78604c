// SPDX-License-Identifier: Apache-2.0

// Package bpfcheck holds one test: every BPF object of the tree is loaded through the verifier and
// attached, on whatever kernel runs the test. It has no code of its own. A program whose type the
// kernel lacks is skipped, by a probe of that type.
package bpfcheck
