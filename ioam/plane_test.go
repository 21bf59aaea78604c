// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"strings"
	"testing"

	"weir/internal/room"
)

// An interface that is not there, as one that is misspelt, is named before anything changes.
func TestInterfacesThatAreNotThereAreForeseen(t *testing.T) {
	p, err := parse(t, "version: 1\nioam: {node: 1, interfaces: {lo: {roles: [ingress]}, nosuch0: {roles: [egress]}}}\nscopes: {}\n")
	if err != nil {
		t.Fatal(err)
	}
	notes := (&hostPlane{}).Foresee(room.State{Host: p.Host})
	if len(notes) != 1 || !strings.Contains(notes[0], "there is no interface nosuch0") {
		t.Errorf("foreseen: %q", notes)
	}
}
