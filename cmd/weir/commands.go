package main

import "github.com/spf13/cobra"

// commands lists the commands of the root, one line each.
func commands(a *app) []*cobra.Command {
	return []*cobra.Command{
		newRunCommand(a),
		newManCommand(a),
	}
}
