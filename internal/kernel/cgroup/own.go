// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Own returns the folder of the v2 cgroup that this process is in.
func Own() (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", fmt.Errorf("find own cgroup: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if path, unified := strings.CutPrefix(strings.TrimSpace(line), "0::"); unified {
			return filepath.Join(root, path), nil
		}
	}
	return "", fmt.Errorf("find own cgroup: %w", os.ErrNotExist)
}
