// Schemagen writes the JSON Schema of policy files to the path it is given.
package main

import (
	"fmt"
	"os"

	"weir/policy"
)

func main() {
	text, err := policy.Schema()
	if err == nil {
		err = os.WriteFile(os.Args[1], text, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
