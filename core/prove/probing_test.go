// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"reflect"
	"testing"
	"time"

	"weir/core/module"
	"weir/core/prove/station"
	"weir/internal/units"
)

func TestSmallPacketsAreSortedByWhenTheyWereSent(t *testing.T) {
	b := &beside{wire: 100, loaded: 50}
	got := b.sum([]station.Echo{{At: 1, RTT: 2}, {At: 2}, {At: 45, RTT: 10}, {At: 60, RTT: 7}, {At: 100, RTT: 9}, {At: 110}, {At: 200, RTT: 5}}, 100, 200)
	want := small{module.Probes{Sent: 2, Lost: 1, Idle: []time.Duration{2}, Load: []time.Duration{9}}, 100, 500}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// Small packets are at most a hundredth of a low rate, and at most a hundred per second.
func TestSmallPacketsLeaveTheRateToTheFlow(t *testing.T) {
	for promise, want := range map[units.BitRate]units.BitRate{1_000_000: 10_000, 1_000_000_000: 100 * 8 * 74} {
		test := Test{Check: module.Check{Promise: promise, Probed: true}, Path: module.Path{Protocol: module.TCP}}
		if got := test.probing(); got != want {
			t.Errorf("%s: %s, want %s", promise, got, want)
		}
		test.Path.Protocol = module.UDP
		if got := test.probing(); got != 0 {
			t.Errorf("beside UDP: %s", got)
		}
	}
}
