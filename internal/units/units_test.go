// SPDX-License-Identifier: Apache-2.0

package units

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

// reading is a text and its value, or the message of the error.
type reading[T comparable] struct {
	text  string
	value T
	fault string
}

func check[T comparable](t *testing.T, parse func(string) (T, error), cases []reading[T]) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.text, func(t *testing.T) {
			got, err := parse(c.text)
			message := ""
			if err != nil {
				message = err.Error()
			}
			if message != c.fault || got != c.value {
				t.Errorf("%q: %v, %q; want %v, %q", c.text, got, message, c.value, c.fault)
			}
		})
	}
}

func TestParseBitRate(t *testing.T) {
	unit := func(s string) string {
		return `rate "` + s + `" has an unknown unit: write bit, kbit, Mbit, Gbit or Tbit, as in "200Mbit"`
	}
	octets := func(s, write string) string {
		return fmt.Sprintf("rate %q is in bytes; rates are in bits: write %s", s, write)
	}
	check(t, ParseBitRate, []reading[BitRate]{
		{"200Mbit", 200e6, ""},
		{"1.5 Gbit/s", 15e8, ""},
		{"64 kbps", 64000, ""},
		{" 1 bit ", 1, ""},
		{"1tbps", 1e12, ""},
		{"20M", 20e6, ""}, {"10m", 10e6, ""}, {"1.5 G", 15e8, ""}, {"64k", 64e3, ""}, // as in iperf3
		{"0", 0, ""},
		{"0bit", 0, ""},
		{"1000Tbit", 1e15, ""},
		{"0.5bit", 1, ""},
		{"0.4bit", 0, `rate "0.4bit" is below 1 bit/s`},
		{"10", 0, unit("10")},
		{"1e6bit", 0, unit("1e6bit")},
		{"1.5 Gbti/s", 0, `rate "1.5 Gbti/s" has an unknown unit (did you mean "1.5Gbit"?): write bit, kbit, Mbit, Gbit or Tbit, as in "200Mbit"`},
		{"64kbits", 0, `rate "64kbits" has an unknown unit (did you mean "64kbit"?): write bit, kbit, Mbit, Gbit or Tbit, as in "200Mbit"`},
		{"100MBps", 0, octets("100MBps", "800Mbit")}, {"100 MB/s", 0, octets("100 MB/s", "800Mbit")}, {"10 MB", 0, octets("10 MB", "80Mbit")},
		{"1Mbyte", 0, octets("1Mbyte", "8Mbit")}, {"2 kbytes/s", 0, octets("2 kbytes/s", "16kbit")}, {"5B", 0, octets("5B", "40bit")},
		{"1MiB", 0, octets("1MiB", "8.389Mbit")}, {"999999 GB", 0, octets("999999 GB", "eight times as many bit, kbit, Mbit or Gbit")},
		{"10mB", 0, unit("10mB")},
		{"-1Mbit", 0, `rate "-1Mbit" is negative`},
		{"1001Tbit", 0, `rate "1001Tbit" is above 1 Pbit/s`},
		{"", 0, `rate: "" does not start with a number`},
		{"fast", 0, `rate: "fast" does not start with a number`},
		{"NaNbit", 0, `rate: "NaNbit" does not start with a number`},
		{"Infbit", 0, `rate: "Infbit" does not start with a number`},
		{"1..5Mbit", 0, `rate: "1..5" is no number, at the start of "1..5Mbit"`},
		{"1.5.5Mbit", 0, `rate: "1.5.5" is no number, at the start of "1.5.5Mbit"`},
	})
}

func TestParseByteSize(t *testing.T) {
	check(t, ParseByteSize, []reading[ByteSize]{
		{"1500", 1500, ""},
		{"64KiB", 65536, ""},
		{"10kB", 10000, ""},
		{"2.5 MB", 2500000, ""},
		{"1TiB", 1 << 40, ""},
		{"1PiB", 1 << 50, ""},
		{"0", 0, ""},
		{"0.1B", 0, `size "0.1B" is below 1 B`},
		{"-1", 0, `size "-1" is negative`},
		{"2000000TB", 0, `size "2000000TB" is above 1 EB`},
		{"5 apples", 0, `size "5 apples" has an unknown unit: write B, kB, MB, GB, KiB, MiB or GiB, as in "64KiB"`},
		{"KiB", 0, `size: "KiB" does not start with a number`},
	})
}

func TestParseProbability(t *testing.T) {
	check(t, ParseProbability, []reading[Probability]{
		{"1%", 0.01, ""},
		{"0.5 %", 0.005, ""},
		{"0.25", 0.25, ""},
		{"100%", 1, ""},
		{"0", 0, ""},
		{"101%", 0, `share "101%" is outside 0 % to 100 %`},
		{"1.01", 0, `share "1.01" is outside 0 % to 100 %`},
		{"-1%", 0, `share "-1%" is outside 0 % to 100 %`},
		{"1 percent", 0, `share "1 percent" has the unit "percent": write a percentage as in "1%"`},
		{"%", 0, `share: "%" does not start with a number`},
	})
	if p, err := ParseProbability("-0%"); err != nil || math.Signbit(float64(p)) {
		t.Errorf("-0%%: %v, %v", float64(p), err)
	}
}

func TestParseDuration(t *testing.T) {
	unknown := func(s string) string {
		return `duration "` + s + `" is not valid: write a number and ns, us, ms, s, m or h, as in "5ms"`
	}
	check(t, ParseDuration, []reading[time.Duration]{
		{"5ms", 5 * time.Millisecond, ""},
		{"1.5 s", 1500 * time.Millisecond, ""},
		{"250us", 250 * time.Microsecond, ""},
		{"250µs", 250 * time.Microsecond, ""},
		{"1h 30m", 90 * time.Minute, ""},
		{"0", 0, ""},
		{"5", 0, unknown("5")},
		{"", 0, unknown("")},
		{"5 days", 0, unknown("5 days")},
		{"1000000h1000000h1000000h", 0, unknown("1000000h1000000h1000000h")},
		{"-5ms", 0, `duration "-5ms" is negative`},
	})
}

func TestString(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{BitRate(0).String(), "0 bit/s"},
		{BitRate(999).String(), "999 bit/s"},
		{BitRate(1000).String(), "1 kbit/s"},
		{BitRate(941_482_444).String(), "941.482 Mbit/s"},
		{BitRate(999_999_999).String(), "1 Gbit/s"},
		{BitRate(1e15).String(), "1000 Tbit/s"},
		{ByteSize(1023).String(), "1023 B"},
		{ByteSize(65536).String(), "64 KiB"},
		{ByteSize(1<<20 - 1).String(), "1023.999 KiB"},
		{ByteSize(1<<30 - 1).String(), "1 GiB"},
		{Probability(0.01).String(), "1 %"},
		{Probability(0.0000001).String(), "0.00001 %"},
		{Duration(1500 * time.Millisecond).String(), "1.5s"},
	} {
		t.Run(c.want, func(t *testing.T) {
			if c.got != c.want {
				t.Errorf("%q, want %q", c.got, c.want)
			}
		})
	}
}

func TestText(t *testing.T) {
	var r BitRate
	var b ByteSize
	var p Probability
	var d Duration
	for _, err := range []error{r.UnmarshalText([]byte("2Mbit")), b.UnmarshalText([]byte("2KiB")), p.UnmarshalText([]byte("2%")), d.UnmarshalText([]byte("2s"))} {
		if err != nil {
			t.Error(err)
		}
	}
	if r != 2e6 || b != 2048 || p != 0.02 || d != Duration(2*time.Second) {
		t.Errorf("read %d, %d, %g, %d", r, b, p, d)
	}
	if text, err := d.MarshalText(); err != nil || string(text) != "2s" {
		t.Errorf("written as %q, %v", text, err)
	}
	if err := d.UnmarshalText([]byte("never")); err == nil {
		t.Error("a word was read as a duration")
	}
}

// FuzzParse: no text makes a reader panic or leave its range, and printed values parse to the same
// within rounding.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"200Mbit", "1.5 Gbit/s", "64KiB", "5ms", "1%", "0", "-1", "1e309Mbit", "٣bit", "0x1p-2", " %", "1_0B", "9999999999999999999"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if r, err := ParseBitRate(text); err == nil {
			back, err := ParseBitRate(r.String())
			if r > 1e15 || err != nil || math.Abs(float64(back)-float64(r)) > float64(r)*0.0006 {
				t.Errorf("rate %q: %d, printed %s, read back %d, %v", text, r, r, back, err)
			}
		}
		if b, err := ParseByteSize(text); err == nil {
			back, err := ParseByteSize(b.String())
			if b > 1e18 || err != nil || math.Abs(float64(back)-float64(b)) > float64(b)*0.0006+0.5 {
				t.Errorf("size %q: %d, printed %s, read back %d, %v", text, b, b, back, err)
			}
		}
		if p, err := ParseProbability(text); err == nil {
			back, err := ParseProbability(p.String())
			if p < 0 || p > 1 || err != nil || math.Abs(float64(back-p)) > 1e-8 {
				t.Errorf("share %q: %g, printed %s, read back %g, %v", text, float64(p), p, float64(back), err)
			}
		}
		if d, err := ParseDuration(text); err == nil && (d < 0 || strings.Contains(Duration(d).String(), "-")) {
			t.Errorf("duration %q: %s", text, d)
		}
	})
}
