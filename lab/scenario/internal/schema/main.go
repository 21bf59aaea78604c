// SPDX-License-Identifier: Apache-2.0

// Command schema writes the JSON Schema of scenario files to the file that its argument names.
package main

import (
	"fmt"
	"os"

	"weir/lab/scenario"
)

func main() {
	if err := run(os.Args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("usage: %s FILE", args[0])
	}
	text, err := scenario.Schema()
	if err != nil {
		return err
	}
	return os.WriteFile(args[1], text, 0o644)
}
