// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"weir/kernel/netns"
)

// processBirth returns a process's start time in clock ticks since boot (proc_pid_stat(5), field
// 22).
func processBirth(pid int) (uint64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("read start time of process %d: %w", pid, err)
	}
	// The command name in parentheses may contain spaces; the fields start after the last
	// parenthesis.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 20 {
		return 0, fmt.Errorf("read start time of process %d: %d fields", pid, len(fields))
	}
	birth, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read start time of process %d: %w", pid, err)
	}
	return birth, nil
}

// endInside kills the processes in the named namespaces, except this one: they belong to the lab,
// and each keeps its namespace alive.
func endInside(names []string) error {
	inside := make(map[string]bool, len(names))
	for _, name := range names {
		ns, err := netns.Open(name)
		if err != nil {
			continue // gone, or a stale pin
		}
		inode, err := ns.Inode()
		_ = ns.Close()
		if err == nil {
			inside[fmt.Sprintf("net:[%d]", inode)] = true
		}
	}
	links, err := filepath.Glob("/proc/[0-9]*/ns/net")
	if err != nil {
		return fmt.Errorf("list processes: %w", err)
	}
	var errs []error
	for _, path := range links {
		target, err := os.Readlink(path)
		if err != nil || !inside[target] {
			continue
		}
		pid, err := strconv.Atoi(strings.Split(path, "/")[2])
		if err != nil || pid == os.Getpid() {
			continue
		}
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("end process %d inside the lab: %w", pid, err))
		}
	}
	return errors.Join(errs...)
}
