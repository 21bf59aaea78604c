// SPDX-License-Identifier: Apache-2.0

package session

import "testing"

func TestReadLoad(t *testing.T) {
	// user nice system idle iowait irq softirq steal guest guest_nice; guest time is part of user
	// time
	got := readLoad("cpu  100 10 50 800 5 0 15 20 40 4\ncpu0 1 1 1 1 1 1 1 1 1 1\n")
	if want := (load{total: 1000, stolen: 20, user: 110}); got != want {
		t.Errorf("load %+v, want %+v", got, want)
	}
	if got := readLoad("nonsense"); got != (load{}) {
		t.Errorf("load %+v of a file that cannot be read", got)
	}
}

func TestMissedCounters(t *testing.T) {
	for name, want := range map[string]bool{
		"rx_missed_errors": true, "rx_queue_0_drops": true, "rx_no_buffer_count": true, "rx_out_of_buffer": true,
		"rx_queue_0_xdp_drops": false, "tx_dropped": false, "rx_packets": false,
	} {
		t.Run(name, func(t *testing.T) {
			if missed(name) != want {
				t.Errorf("%s counts as missed: %v, want %v", name, !want, want)
			}
		})
	}
}
