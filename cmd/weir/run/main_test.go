// SPDX-License-Identifier: Apache-2.0

package run

import (
	"testing"

	"weir/cmd/weir/clitest"
)

var commands = clitest.Group{Command, LendCommand}

func TestMain(m *testing.M) { commands.Main(m) }
