// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"os"
	"slices"
	"strconv"
	"strings"
)

// capabilities of Weir's mechanisms, by bit (linux/capability.h).
var capabilityBits = map[string]uint{
	"CAP_NET_ADMIN": 12, "CAP_NET_RAW": 13, "CAP_IPC_LOCK": 14, "CAP_SYS_ADMIN": 21, "CAP_SYS_NICE": 23,
	"CAP_SYS_RESOURCE": 24, "CAP_PERFMON": 38, "CAP_BPF": 39,
}

// Capabilities returns the effective capabilities of this process among those that Weir uses, by
// name.
func Capabilities() map[string]bool {
	set, _ := strconv.ParseUint(status("CapEff"), 16, 64)
	held := map[string]bool{}
	for name, bit := range capabilityBits {
		held[name] = set&(1<<bit) != 0
	}
	return held
}

// lacking returns the capabilities of want that this process lacks, sorted. CAP_SYS_ADMIN includes
// CAP_BPF, which Linux 5.8 split from it.
func lacking(want []string) []string {
	held := Capabilities()
	var missing []string
	for _, name := range want {
		if !held[name] && !(name == "CAP_BPF" && held["CAP_SYS_ADMIN"]) {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	return missing
}

// SeccompFilter reports whether this process has a seccomp filter, as set by container runtimes.
func SeccompFilter() bool {
	mode, err := strconv.Atoi(status("Seccomp"))
	return err == nil && mode > 0
}

// status returns a field of /proc/self/status.
func status(field string) string {
	content, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(content)) {
		if value, found := strings.CutPrefix(line, field+":"); found {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
