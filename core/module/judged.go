// SPDX-License-Identifier: Apache-2.0

package module

// Judge is a Prover, or a Module with an Inspector, that documents its checks for the reader of a
// result.
type Judge interface {
	Judges() []Judged
}

// Judged documents one kind of check.
type Judged struct {
	Check string // its name
	// Of is the subject of the promise: "a scope's egress". Looks is the probe or examined state,
	// and Holds the expected result.
	Of, Looks, Holds string
}
