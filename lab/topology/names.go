// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"weir/lab/scenario"
)

// HostsFile is the file in a lab's directory by which its nodes know each other's names; 0 is for
// both versions of IP, 4 and 6 for one.
func HostsFile(directory string, family int) string {
	name := "hosts"
	if family != 0 {
		name += fmt.Sprint(family)
	}
	return filepath.Join(directory, name)
}

// writeHosts writes these files: every node under the address of its first link, which is the one
// that flows go to.
func writeHosts(directory string, cell *scenario.Cell) error {
	for _, families := range [][]int{{4, 6}, {4}, {6}} {
		var text strings.Builder
		text.WriteString("127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n")
		for _, node := range cell.Nodes {
			for _, family := range families {
				if address, known := cell.Address(node.Name, family); known {
					fmt.Fprintf(&text, "%s %s\n", address, node.Name)
				}
			}
		}
		family := 0
		if len(families) == 1 {
			family = families[0]
		}
		if err := os.WriteFile(HostsFile(directory, family), []byte(text.String()), 0o644); err != nil {
			return fmt.Errorf("write the nodes' names: %w", err)
		}
	}
	return nil
}
