// SPDX-License-Identifier: Apache-2.0

// Command generate writes the generated tables of the pages in a folder.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"weir/docs/tables"
)

func main() {
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(folder string) error {
	_, want, err := tables.Pages(folder)
	if err != nil {
		return err
	}
	for page, text := range want {
		if err := os.WriteFile(filepath.Join(folder, page), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
