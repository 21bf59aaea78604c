// SPDX-License-Identifier: Apache-2.0

package police

import (
	"testing"
	"time"

	"weir/internal/units"
)

func TestThresholdsScaleWithTheRate(t *testing.T) {
	for _, test := range []struct {
		rate              units.BitRate
		burst, mark, drop time.Duration
	}{
		{1e9, 1200 * time.Microsecond, 2 * time.Millisecond, 10 * time.Millisecond},
		{400e9, 1200 * time.Microsecond, 2 * time.Millisecond, 10 * time.Millisecond},
		// 4, 8 and 40 frames of 1514 octets at 1 Mbit/s.
		{1e6, 48448 * time.Microsecond, 96896 * time.Microsecond, 484480 * time.Microsecond},
	} {
		got := Limit{Rate: test.rate}.WithDefaults()
		if got.Burst != test.burst || got.Mark != test.mark || got.Drop != test.drop {
			t.Errorf("%s: burst %s, mark %s, drop %s; want %s, %s, %s", test.rate, got.Burst, got.Mark, got.Drop, test.burst, test.mark, test.drop)
		}
	}
}

func TestCheckNamesWhatIsWrong(t *testing.T) {
	for _, test := range []struct {
		name  string
		limit Limit
		want  string
	}{
		{"no rate", Limit{}, "rate 0 bit/s is outside 64 kbit/s to 400 Gbit/s"},
		{"a rate too high", Limit{Rate: 500e9}, "rate 500 Gbit/s is outside 64 kbit/s to 400 Gbit/s"},
		{"mark above drop", Limit{Rate: 1e9, Mark: 20 * time.Millisecond}, "mark threshold 20ms is not below the drop threshold 10ms less the reserve 200µs"},
		{"a burst of weeks", Limit{Rate: 1e9, Burst: 900 * time.Hour}, "burst 900h0m0s is above a minute, for which an idle scope would be unlimited"},
		{"a queue of an hour", Limit{Rate: 1e9, Drop: time.Hour}, "drop threshold 1h0m0s is above a minute"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := test.limit.Check()
			if err == nil || err.Error() != test.want {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
	for _, rate := range []units.BitRate{MinRate, 1e6, 1e9, MaxRate} {
		if err := (Limit{Rate: rate}).Check(); err != nil {
			t.Errorf("%s with defaults: %v", rate, err)
		}
	}
}

// The cost of a packet is exact to well below 0.1 % at both ends of the range of rates.
func TestCostIsExactEnough(t *testing.T) {
	for _, rate := range []units.BitRate{MinRate, 10e6, 1e9, MaxRate} {
		config := Limit{Rate: rate}.config(Egress)
		const octets = 65536
		got := float64(config.Cost*octets) / (1 << limitLimitFormatLIMIT_COST_SHIFT)
		want := octets * 8e9 / float64(rate)
		if got < want*0.9999 || got > want*1.0001 {
			t.Errorf("%s: %d octets cost %g ns, want %g", rate, octets, got, want)
		}
	}
}
