// SPDX-License-Identifier: Apache-2.0

package module

// Judge is a Prover, or a Room whose Plane is an Inspector, that says what its checks judge: who
// reads a result looks it up there.
type Judge interface {
	Judges() []Judged
}

// Judged is one kind of check.
type Judged struct {
	Check string // its name
	// Of is what has the promise: "a scope's egress". Looks is what is sent or looked at, and Holds
	// what must come of it.
	Of, Looks, Holds string
}
