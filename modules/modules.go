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

// All returns the modules in the order of an apply. A release uses the reverse order.
func All() []module.Module {
	return []module.Module{fleet.Module{}, limit.Module{}, cc.Module{}, class.Module{}, borders.Module{}, links.Module{}, ioam.Module{}, offload.Module{}}
}

// absent maps policy keys of other builds of Weir to their modules.
var absent = map[string]string{}

// Language returns the syntax of policy files with these modules.
func Language(all []module.Module) (*policy.Language, error) {
	var grammars []policy.Grammar
	for _, r := range all {
		grammars = append(grammars, r.Grammar())
	}
	return policy.NewLanguage(selector.Language(), grammars, absent)
}
