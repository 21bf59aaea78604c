// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Own returns the folder of this process's v2 cgroup.
func Own() (string, error) {
	c, err := of("self")
	return c.Path, err
}

// Of returns the v2 cgroup of a process.
func Of(pid int) (Cgroup, error) { return of(strconv.Itoa(pid)) }

func of(process string) (c Cgroup, err error) {
	root, err := Root()
	if err != nil {
		return c, err
	}
	text, err := os.ReadFile("/proc/" + process + "/cgroup")
	if err != nil {
		return c, fmt.Errorf("find cgroup of process %s: %w", process, err)
	}
	for line := range strings.Lines(string(text)) {
		path, unified := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::")
		switch {
		case unified && strings.HasPrefix(path, "/.."):
			return c, fmt.Errorf("find cgroup of process %s: it is outside this process's cgroup namespace", process)
		case unified:
			return Cgroup{filepath.Join(root, path)}, nil
		}
	}
	return c, fmt.Errorf("find cgroup of process %s: it is in none of v2: %w", process, os.ErrNotExist)
}
