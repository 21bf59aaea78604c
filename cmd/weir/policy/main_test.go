// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"testing"

	"weir/cmd/weir/clitest"
)

var commands = clitest.Group{PlanCommand, ApplyCommand, DaemonCommand, StatusCommand, ProveCommand, ReleaseCommand}

func TestMain(m *testing.M) { commands.Main(m) }
