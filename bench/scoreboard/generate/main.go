// SPDX-License-Identifier: Apache-2.0

// Command generate writes published.md in a folder of results.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"weir/bench/scoreboard"
)

func main() {
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(folder string) error {
	board, err := scoreboard.Read(folder)
	if err != nil {
		return err
	}
	if err := board.Check(folder); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, scoreboard.Document), []byte(board.Render()), 0o644)
}
