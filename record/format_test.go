// SPDX-License-Identifier: Apache-2.0

package record_test

import (
	"math"
	"testing"

	"weir/record"
)

func TestFormat(t *testing.T) {
	for _, test := range []struct {
		unit  record.Unit
		value float64
		want  string
	}{
		{record.BitPerSecond, 373_240_000, "373.2 Mbit/s"},
		{record.BitPerSecond, 941.5e6, "941.5 Mbit/s"},
		{record.BitPerSecond, 999_999_999, "1 Gbit/s"},
		{record.BitPerSecond, 0, "0 bit/s"},
		{record.BitPerSecond, 0.5, "0.5 bit/s"},
		{record.BitPerSecond, -2e6, "-2 Mbit/s"},
		{record.Seconds, 0.0201, "20.1 ms"},
		{record.Seconds, 1.5e-6, "1.5 µs"},
		{record.Seconds, 0, "0 s"},
		{record.Seconds, 90, "90 s"},
		{record.Share, 0.98244, "0.9824"},
		{record.Share, 0.00012345, "0.0001234"},
		{record.Share, 1, "1"},
		{record.Count, 123456789, "123456789"},
		{record.Count, 2.5, "2.5"},
		{record.Frames, 1488095, "1488095 frames"},
		{record.FramePerSecond, 1488095, "1.488 Mframe/s"},
		{record.Bytes, 2_500_000, "2.5 MB"},
		{"degree", 12, "12 degree"},
		{record.BitPerSecond, math.NaN(), "NaN bit/s"},
	} {
		if got := test.unit.Format(test.value); got != test.want {
			t.Errorf("%g %s prints as %q, want %q", test.value, test.unit, got, test.want)
		}
	}
}

func TestFormatInterval(t *testing.T) {
	if got := record.BitPerSecond.FormatInterval(360e6, 1.2e9); got != "0.36–1.2 Gbit/s" {
		t.Errorf("interval prints as %q", got)
	}
	if got := record.Seconds.FormatInterval(-0.001, 0.002); got != "-1 to 2 ms" {
		t.Errorf("interval prints as %q", got)
	}
}
