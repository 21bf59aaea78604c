// SPDX-License-Identifier: Apache-2.0

package module

import (
	"testing"
	"time"
)

func TestLossesAreSummedUp(t *testing.T) {
	var load []time.Duration
	for i := range 100 {
		load = append(load, time.Duration(100-i))
	}
	got := LossesOf([]Sample{
		{Left: 1000, Again: 10, Probes: Probes{Sent: 60, Lost: 1, Idle: []time.Duration{3, 1}, Load: load[:60]}},
		{Left: 3000, Again: 30, Probes: Probes{Sent: 40, Lost: 2, Idle: []time.Duration{2}, Load: load[60:]}},
	})
	if want := (Losses{Again: 0.01, Sent: 100, Lost: 3, Idle: 2, P50: 50, P99: 99}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := LossesOf([]Sample{{}}); got != (Losses{}) {
		t.Errorf("of nothing: %+v", got)
	}
}
