// SPDX-License-Identifier: Apache-2.0

package ix

import (
	"testing"

	"weir/cmd/weir/clitest"
)

var commands = clitest.Group{Command}

func TestMain(m *testing.M) { commands.Main(m) }
