// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"weir/cmd/weir/avail"
	"weir/cmd/weir/cc"
	"weir/cmd/weir/class"
	"weir/cmd/weir/cli"
	"weir/cmd/weir/doctor"
	"weir/cmd/weir/fleet"
	"weir/cmd/weir/ioam"
	"weir/cmd/weir/ix"
	"weir/cmd/weir/lab"
	"weir/cmd/weir/measure"
	"weir/cmd/weir/offload"
	"weir/cmd/weir/policy"
	"weir/cmd/weir/run"
	"weir/cmd/weir/tester"
	"weir/cmd/weir/top"
)

// commands lists the commands of the root, one line each.
func commands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{
		doctor.Command(a),
		lab.Command(a),
		policy.PlanCommand(a),
		policy.ApplyCommand(a),
		policy.DaemonCommand(a),
		policy.StatusCommand(a),
		top.Command(a),
		policy.ProveCommand(a),
		policy.ReleaseCommand(a),
		run.Command(a),
		run.LendCommand(a),
		tester.Command(a),
		cc.Command(a),
		class.Command(a),
		avail.Command(a),
		ioam.Command(a),
		offload.Command(a),
		fleet.Command(a),
		measure.Command(a),
		ix.Command(a),
		newManCommand(a),
		newVersionCommand(a),
	}
}
