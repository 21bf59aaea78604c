// SPDX-License-Identifier: Apache-2.0

// Package scenarios embeds the scenario files that Weir ships. They are read with lab/scenario.
package scenarios

import "embed"

// Files holds every shipped scenario as NAME.yaml.
//
//go:embed *.yaml
var Files embed.FS
