// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"weir/core/engine"
	"weir/modules"
)

// NewEngine returns the engine of this host with the modules of this build.
func NewEngine() (*engine.Engine, error) {
	all := modules.All()
	language, err := modules.Language(all)
	if err != nil {
		return nil, err
	}
	return engine.New(all, language)
}
