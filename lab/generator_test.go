// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"testing"

	"weir/lab/traffic"
)

func TestFlowNamesItsGenerator(t *testing.T) {
	t.Parallel()
	chosen, err := Generator("weir")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"": "weir", "weir": "weir", "iperf3": "iperf3"} {
		got, err := chosen.(perFlow).of(traffic.Flow{Generator: name})
		if err != nil || got.Name() != want {
			t.Errorf("flow with generator %q: %v, %v; want %s", name, got, err, want)
		}
	}
	// iperf3 has no request/response: the flow's own generator must be asked, not the run's.
	if err := chosen.Check(traffic.Flow{Kind: traffic.Request, Generator: "iperf3"}); err == nil {
		t.Error("a request flow by iperf3 was accepted")
	}
}
