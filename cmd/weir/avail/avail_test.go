// SPDX-License-Identifier: Apache-2.0

package avail

import (
	"strings"
	"testing"

	"weir/cmd/weir/cli"
	"weir/core/avail"
	"weir/internal/fault"
	"weir/record/stats"
)

// Wrong arguments are errors before the first packet.
func TestMistakesOfAvail(t *testing.T) {
	t.Setenv(cli.TokenVariable, "")
	for _, test := range []struct{ args, want string }{
		{"", "no destination"},
		{"192.0.2.9 --token x", "missing port"},
		{"127.0.0.1:9", "no token"},
		{"127.0.0.1:9 --token x --most 0", "--most 0 bit/s is outside 64 kbit/s to 400 Gbit/s"},
		{"127.0.0.1:9 --token x --most 1kbit", "--most 1 kbit/s is outside"},
		{"127.0.0.1:9 --token x --most 401Gbit", "--most 401 Gbit/s is outside"},
		{"127.0.0.1:9 --token x --repetitions 0", "--repetitions 0 is outside"},
		{"127.0.0.1:9 --token x --class nice", `"nice" is no class`},
	} {
		status, _, stderr := commands.Call(t, append([]string{"avail"}, strings.Fields(test.args)...)...)
		if status != fault.Usage || !strings.Contains(stderr, test.want) {
			t.Errorf("%s: status %d, %q does not say %q", test.args, status, stderr, test.want)
		}
	}
}

// If no search reached its upper end, the mean is a lower bound and has no confidence interval.
func TestAvailableRateInTheTable(t *testing.T) {
	found := &avail.Result{Available: stats.Of([]float64{7e6, 9e6}), Samples: []avail.Sample{{Low: 7e6}, {Low: 8e6, High: 1e7}, {Low: 9e6, High: 9e6}}}
	value := func(row int) string { return table(found, 1).Rows[row][1] }
	for row, want := range map[int]string{0: "8 Mbit/s [0 bit/s, 20.706 Mbit/s]", 1: "carried 7 Mbit/s", 2: "carried 8 Mbit/s, and not 10 Mbit/s", 3: "carried 9 Mbit/s, and not always"} {
		if got := value(row); got != want {
			t.Errorf("row %d: %q, want %q", row, got, want)
		}
	}
	found.AtLeast = "no more was tried"
	if got, want := value(0), "at least 8 Mbit/s: no more was tried"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
