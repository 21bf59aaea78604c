// SPDX-License-Identifier: Apache-2.0

// Package modules lists the modules of this build.
package modules

import (
	"weir/core/module"
	"weir/core/policy"
	"weir/core/selector"
	"weir/modules/cc"
	"weir/modules/class"
	"weir/modules/class/borders"
	"weir/modules/class/links"
	"weir/modules/fleet"
	"weir/modules/ioam"
	"weir/modules/limit"
	"weir/modules/offload"
)

//go:generate go run ./schemagen ../docs/schema/policy.schema.json

// All lists the rooms in the order in which a policy is applied; it is released in the reverse
// order.
func All() []module.Module {
	return []module.Module{fleet.Module{}, limit.Module{}, cc.Module{}, class.Module{}, borders.Module{}, links.Module{}, ioam.Module{}, offload.Module{}}
}

// absent are keys of policies that other builds of Weir have, each with the room that it belongs
// to.
var absent = map[string]string{}

// Language is what the policy files of some rooms may say.
func Language(all []module.Module) (*policy.Language, error) {
	var grammars []policy.Grammar
	for _, r := range all {
		grammars = append(grammars, r.Grammar())
	}
	return policy.NewLanguage(selector.Language(), grammars, absent)
}
