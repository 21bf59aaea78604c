// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"weir/core/policy"
	"weir/core/selector"
	"weir/modules/ioam"
	"weir/modules/ioam/node"
)

func init() { node.Parse = parse }

func parse(text string) (*policy.Policy, error) {
	language, err := policy.NewLanguage(selector.Language(), []policy.Grammar{ioam.Module{}.Grammar()}, nil)
	if err != nil {
		return nil, err
	}
	return language.Parse("policy", []byte(text))
}
