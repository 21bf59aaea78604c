// SPDX-License-Identifier: Apache-2.0

// Package bench measures what claims of speed rest on. Every benchmark runs once with
// -benchtime=1x, as CI does.
package bench

import (
	"testing"

	"weir/internal/child"
	"weir/kernel/cgroup"
	"weir/lab/link/emulator"
)

func TestMain(m *testing.M) {
	child.Main(child.Parts{emulator.PartName: emulator.Part, limitLoadPart: runLimitLoad,
		cgroup.SocketsPart: cgroup.ServeSockets})
	m.Run()
}
