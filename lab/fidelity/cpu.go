// SPDX-License-Identifier: Apache-2.0

package fidelity

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// cpuTime is the time of one CPU since boot, in ticks (proc_stat(5)).
type cpuTime struct {
	total, idle, steal uint64
}

func readCPUs() ([]cpuTime, error) {
	file, err := os.Open("/proc/stat")
	if err != nil {
		return nil, fmt.Errorf("read CPU times: %w", err)
	}
	defer func() { _ = file.Close() }()
	return parseCPUs(file)
}

// parseCPUs reads the lines "cpuN user nice system idle iowait irq softirq steal ..." without the
// sum, "cpu".
func parseCPUs(from io.Reader) ([]cpuTime, error) {
	const idle, iowait, steal, last = 3, 4, 7, 8
	var cpus []cpuTime
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 || !strings.HasPrefix(fields[0], "cpu") || fields[0] == "cpu" {
			continue
		}
		var cpu cpuTime
		for i, field := range fields[1:min(len(fields), 1+last)] {
			ticks, err := strconv.ParseUint(field, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("read CPU times: %w", err)
			}
			cpu.total += ticks
			switch i {
			case idle, iowait:
				cpu.idle += ticks
			case steal:
				cpu.steal += ticks
			}
		}
		cpus = append(cpus, cpu)
	}
	return cpus, lines.Err()
}

// utilization is each CPU's busy share and the stolen share of all CPUs between two readings. It
// excludes a CPU that was added or removed in between, or with a clock that did not advance.
func utilization(before, after []cpuTime) (busy []float64, steal float64) {
	var total, stolen uint64
	for i := range min(len(before), len(after)) {
		spent := after[i].total - before[i].total
		idle := after[i].idle - before[i].idle
		if spent == 0 || idle > spent { // idle times may run backwards by a tick
			continue
		}
		total += spent
		stolen += after[i].steal - before[i].steal
		busy = append(busy, 1-float64(idle)/float64(spent))
	}
	if total > 0 {
		steal = float64(stolen) / float64(total)
	}
	return busy, steal
}
