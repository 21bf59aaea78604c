// SPDX-License-Identifier: Apache-2.0

// Package rooms is the one list of the rooms that this build of Weir has.
package rooms

import (
	"weir/cc"
	"weir/class"
	"weir/class/borders"
	"weir/class/links"
	"weir/internal/room"
	"weir/internal/selector"
	"weir/ioam"
	"weir/limit"
	"weir/offload"
	"weir/policy"
)

//go:generate go run ./schemagen ../../docs/schema/policy.schema.json

// All lists the rooms in the order in which a policy is applied; it is released in the reverse
// order.
func All() []room.Room {
	return []room.Room{limit.Room{}, cc.Room{}, class.Room{}, borders.Room{}, links.Room{}, ioam.Room{}, offload.Room{}}
}

// absent are keys of policies that other builds of Weir have, each with the room that it belongs
// to.
var absent = map[string]string{}

// Language is what the policy files of some rooms may say.
func Language(all []room.Room) (*policy.Language, error) {
	var grammars []policy.Grammar
	for _, r := range all {
		grammars = append(grammars, r.Grammar())
	}
	return policy.NewLanguage(selector.Language(), grammars, absent)
}
