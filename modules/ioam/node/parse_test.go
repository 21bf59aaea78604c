// SPDX-License-Identifier: Apache-2.0

package node

import "weir/core/policy"

// Parse reads a policy. The language of policies imports this package, so language_test.go sets it.
var Parse func(text string) (*policy.Policy, error)
