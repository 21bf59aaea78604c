// SPDX-License-Identifier: Apache-2.0

package police

import (
	"os"
	"testing"

	"weir/internal/child"
	"weir/kernel/cgroup"
	"weir/modules/limit/limittest"
)

func TestMain(m *testing.M) {
	child.Main(child.Parts{cgroup.SocketsPart: cgroup.ServeSockets, "load": limittest.Load, "greedy": greedy, "talk": limittest.Talk, "ask": ask})
	os.Exit(m.Run())
}

type task = limittest.Task

var (
	nested  = limittest.Nested
	path    = limittest.Path
	listen  = limittest.Listen
	serve   = limittest.Serve
	accept  = limittest.Accept
	talker  = limittest.Talker
	pins    = limittest.Pins
	udpSink = limittest.UDPSink
	echo    = limittest.Echo
)
