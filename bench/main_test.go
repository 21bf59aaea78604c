// SPDX-License-Identifier: Apache-2.0

// Package bench measures the claims of speed. CI runs every benchmark once with -benchtime=1x.
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
