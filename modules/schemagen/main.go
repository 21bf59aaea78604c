// SPDX-License-Identifier: Apache-2.0

// Schemagen writes the JSON Schema of policy files to the path it is given.
package main

import (
	"fmt"
	"os"

	"weir/modules"
)

func main() {
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(path string) error {
	language, err := modules.Language(modules.All())
	if err != nil {
		return err
	}
	text, err := language.Schema()
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}
