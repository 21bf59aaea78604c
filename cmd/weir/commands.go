// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/spf13/cobra"

// commands lists the commands of the root, one line each.
func commands(a *app) []*cobra.Command {
	return []*cobra.Command{
		newDoctorCommand(a),
		newLabCommand(a),
		newPlanCommand(a),
		newApplyCommand(a),
		newDaemonCommand(a),
		newStatusCommand(a),
		newTopCommand(a),
		newProveCommand(a),
		newReleaseCommand(a),
		newRunCommand(a),
		newLendCommand(a),
		newTesterCommand(a),
		newCCCommand(a),
		newClassCommand(a),
		newAvailCommand(a),
		newIOAMCommand(a),
		newOffloadCommand(a),
		newManCommand(a),
		newVersionCommand(a),
	}
}
