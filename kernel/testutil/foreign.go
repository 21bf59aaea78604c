// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// labs is the default registry of labs.
const labs = "/run/weir/lab"

// foreign reports whether a new item was made neither by this process nor by a child of it: a
// namespace without a Weir name, or an object of a lab that the registry attributes to another
// process.
func foreign(registry, item string) bool {
	kind, name, _ := strings.Cut(item, " ")
	switch kind {
	case "namespace":
		lab, is := strings.CutPrefix(name, "weir-")
		id, _, _ := strings.Cut(lab, "-")
		return !strings.HasPrefix(name, "weir") || is && ofAnother(filepath.Join(registry, id))
	case "cgroup":
		id, is := strings.CutPrefix(name, "weir-lab-")
		return is && ofAnother(filepath.Join(registry, id))
	case "file":
		below, is := strings.CutPrefix(name, registry+"/")
		id, _, _ := strings.Cut(below, "/")
		return is && ofAnother(filepath.Join(registry, id)) || strings.HasPrefix(name, "/sys/fs/bpf/") && !strings.HasPrefix(name, "/sys/fs/bpf/weir")
	}
	return false
}

// ofAnother reports whether a lab is registered by a living process that this one has not started.
func ofAnother(lab string) bool {
	var owner struct{ PID int }
	text, err := os.ReadFile(filepath.Join(lab, "instance.json"))
	if err != nil || json.Unmarshal(text, &owner) != nil || owner.PID == 0 {
		return false
	}
	lives := false
	for pid := owner.PID; pid > 1; lives = true {
		if pid == os.Getpid() {
			return false
		}
		if pid = parent(pid); pid < 0 {
			break
		}
	}
	return lives
}

// parent returns the parent of a process (proc_pid_stat(5)); -1 if there is no such process.
func parent(pid int) (ppid int) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, behind, named := bytes.Cut(stat, []byte(") "))
	if err != nil || !named {
		return -1
	}
	var state rune
	if _, err := fmt.Sscanf(string(behind), "%c %d", &state, &ppid); err != nil {
		return -1
	}
	return ppid
}
