// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"fmt"
	"os"
	"path/filepath"
)

// Each calls f once for every network namespace with a process or a name. It returns the first
// error of f.
func Each(f func(*Namespace) error) error {
	processes, err := filepath.Glob("/proc/[0-9]*/ns/net")
	if err != nil {
		return fmt.Errorf("list namespaces: %w", err)
	}
	named, err := filepath.Glob(filepath.Join(Dir, "*"))
	if err != nil {
		return fmt.Errorf("list namespaces: %w", err)
	}
	seen := map[uint64]bool{}
	var first error
	for _, path := range append(processes, named...) {
		ns, err := OpenPath(path)
		if err != nil {
			continue // an ended process or a stale name
		}
		inode, err := ns.Inode()
		if err == nil && !seen[inode] {
			seen[inode] = true
			if err := f(ns); err != nil && first == nil && !os.IsNotExist(err) {
				first = err
			}
		}
		_ = ns.Close()
	}
	return first
}
