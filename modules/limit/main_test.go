// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"os"
	"testing"

	"weir/internal/child"
	"weir/kernel/cgroup"
	"weir/kernel/netns"
	"weir/modules/limit/limittest"
	"weir/modules/limit/police"
)

func TestMain(m *testing.M) {
	namespaces = func(func(*netns.Namespace) error) error { return nil } // of other tests
	child.Main(child.Parts{cgroup.SocketsPart: cgroup.ServeSockets, "load": limittest.Load, "talk": limittest.Talk})
	os.Exit(m.Run())
}

type task = limittest.Task

var (
	nested      = limittest.Nested
	path        = limittest.Path
	talker      = limittest.Talker
	startTalker = limittest.StartTalker
	udpSink     = limittest.UDPSink
	echo        = limittest.Echo
)

func counters(t *testing.T, p *police.DataPlane, scope int) police.Counters {
	t.Helper()
	c, err := p.Counters(scope, Egress)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
