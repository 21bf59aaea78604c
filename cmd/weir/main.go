// SPDX-License-Identifier: Apache-2.0

// Weir regulates and measures the traffic of Linux hosts and routers. See README.md.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"weir/core/prove/station"
	"weir/internal/child"
	"weir/kernel/cgroup"
	"weir/kernel/sockets/keeper"
	"weir/lab/link/emulator"
	"weir/modules/limit/scoped"
	"weir/tester/rfc2544/forwarder"
)

func main() {
	child.Main(parts())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(int(status))
}

// parts are the pieces of Weir that run in processes of their own.
func parts() child.Parts {
	return child.Parts{
		emulator.PartName:  emulator.Part,
		station.NearPart:   station.Near,
		station.FarPart:    station.Far,
		cgroup.SocketsPart: cgroup.ServeSockets,

		forwarder.KeeperPart: forwarder.Keeper,
		keeper.Part:          keeper.Keep,
		scoped.ExecutePart:   scoped.Execute,
	}
}
