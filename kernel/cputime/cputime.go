// SPDX-License-Identifier: Apache-2.0

// Package cputime reads the CPU time used on the host.
package cputime

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Spent is the CPU time of all CPUs since boot, in ticks (/proc/stat, proc(5)).
type Spent struct{ total, idle uint64 }

// Read returns the current value.
func Read() (Spent, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return Spent{}, fmt.Errorf("read CPU time: %w", err)
	}
	return parse(string(text))
}

func parse(text string) (p Spent, err error) {
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	if len(fields) < 6 || fields[0] != "cpu" {
		return p, fmt.Errorf("read CPU time: /proc/stat begins with %q", line)
	}
	// Guest time, the ninth and tenth figure, is part of user time.
	for i, field := range fields[1:min(len(fields), 9)] {
		n, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return p, fmt.Errorf("read CPU time: %w", err)
		}
		p.total += n
		if i == 3 || i == 4 { // idle and iowait
			p.idle += n
		}
	}
	return p, nil
}

// BusySince returns the busy share of the time since before, or 0 if no tick has passed.
func (p Spent) BusySince(before Spent) float64 {
	if p.total <= before.total {
		return 0
	}
	return 1 - float64(p.idle-before.idle)/float64(p.total-before.total)
}
