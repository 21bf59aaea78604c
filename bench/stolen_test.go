// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// stolen returns a function for the percentage of CPU time that the hypervisor has given to other
// machines since: paced flows do not catch up on it. Unlike the lab's gate, a benchmark only
// reports it.
func stolen(b *testing.B) (percent func() float64) {
	b.Helper()
	taken, total := stolenTime(b)
	return func() float64 {
		takenNow, totalNow := stolenTime(b)
		return 100 * (takenNow - taken) / max(1, totalNow-total)
	}
}

// stolenTime reads the first line of /proc/stat, ticks: user nice system idle iowait irq softirq
// steal, and guest times, which are part of the first two (proc_stat(5)).
func stolenTime(b *testing.B) (taken, total float64) {
	b.Helper()
	content, err := os.ReadFile("/proc/stat")
	must(b, err)
	line, _, _ := strings.Cut(string(content), "\n")
	for i, field := range strings.Fields(line)[1:9] {
		ticks, err := strconv.ParseFloat(field, 64)
		must(b, err)
		total += ticks
		if i == 7 {
			taken = ticks
		}
	}
	return taken, total
}
