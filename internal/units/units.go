// SPDX-License-Identifier: Apache-2.0

// Package units reads and prints the quantities people write in files and on the command line:
// "200Mbit", "1.5 Gbit/s", "64KiB", "5ms", "1%".
//
// Rates are decimal (1 kbit = 1000 bit); sizes are decimal with kB, MB, GB and binary with KiB,
// MiB, GiB.
package units

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"weir/internal/fault"
	"weir/internal/nearest"
)

// BitRate is a rate in bit/s. Zero means "not limited" wherever a limit is optional.
type BitRate uint64

// ByteSize is a size in bytes.
type ByteSize uint64

// Probability is a share between 0 and 1, written as "1%", "0.01" or "0.5 %".
type Probability float64

// Duration is a time.Duration that reads and prints as text ("5ms").
type Duration time.Duration

var rateUnits = map[string]float64{
	"bit": 1, "bps": 1, "kbit": 1e3, "kbps": 1e3, "mbit": 1e6, "mbps": 1e6, "gbit": 1e9, "gbps": 1e9, "tbit": 1e12, "tbps": 1e12,
	"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, // as in iperf3
}

var sizeUnits = map[string]float64{
	"": 1, "b": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40, "pib": 1 << 50,
}

// split separates the number at the front of s from the unit behind it.
func split(s string) (float64, string, error) {
	s = strings.TrimSpace(s)
	end := strings.IndexFunc(s, func(r rune) bool { return unicode.IsLetter(r) || r == '%' || unicode.IsSpace(r) })
	if end < 0 {
		end = len(s)
	}
	number, err := strconv.ParseFloat(s[:end], 64)
	if err != nil || math.IsNaN(number) || math.IsInf(number, 0) {
		if digits := strings.TrimLeft(s[:end], "+-."); digits != "" {
			return 0, "", fmt.Errorf("%q is no number, at the start of %q", s[:end], s)
		}
		return 0, "", fmt.Errorf("%q does not start with a number", s)
	}
	return number, strings.TrimSpace(s[end:]), nil
}

// ParseBitRate reads a rate such as "200Mbit", "1.5 Gbit/s" or "64 kbps".
func ParseBitRate(s string) (BitRate, error) {
	number, unit, err := split(s)
	if err != nil {
		return 0, fmt.Errorf("rate: %w", err)
	}
	factor, known := rateUnits[strings.TrimSuffix(strings.ToLower(unit), "/s")]
	switch {
	case number == 0 && unit == "":
		return 0, nil
	case octets(unit) != 0:
		return 0, inBits(s, number*octets(unit)*8)
	case !known:
		return 0, fmt.Errorf("rate %q has an unknown unit%s: write bit, kbit, Mbit, Gbit or Tbit, as in \"200Mbit\"", s, meant(s, unit))
	case number < 0:
		return 0, fmt.Errorf("rate %q is negative", s)
	case number*factor > 1e15:
		return 0, fmt.Errorf("rate %q is above 1 Pbit/s", s)
	case number > 0 && number*factor < 0.5: // would be rounded to "not limited"
		return 0, fmt.Errorf("rate %q is below 1 bit/s", s)
	}
	return BitRate(math.Round(number * factor)), nil
}

// octets returns the bytes per second of a byte-rate unit, and 0 for other units. It rejects the
// ambiguous Mb and mB.
func octets(unit string) float64 {
	unit = strings.TrimSuffix(strings.TrimSuffix(unit, "ps"), "/s")
	if before, long := strings.CutSuffix(strings.TrimSuffix(strings.ToLower(unit), "s"), "byte"); long {
		return sizeUnits[before+"b"]
	}
	if before, short := strings.CutSuffix(unit, "B"); short && before != "m" {
		return sizeUnits[strings.ToLower(unit)]
	}
	return 0
}

// inBits returns the error for a rate in bytes, with the rate in bits as advice.
func inBits(s string, bits float64) error {
	write := "eight times as many bit, kbit, Mbit or Gbit"
	if 1 <= bits && bits <= 1e15 {
		write = strings.ReplaceAll(strings.TrimSuffix(BitRate(math.Round(bits)).String(), "/s"), " ", "")
	}
	return fault.New(fault.Usage, "write "+write, "rate %q is in bytes; rates are in bits: write %s", s, write)
}

// meant suggests the rate with the nearest known unit, or "".
func meant(s, unit string) string {
	near := nearest.Of(strings.TrimSuffix(unit, "/s"), []string{"bit", "kbit", "Mbit", "Gbit", "Tbit", "kbps", "Mbps", "Gbps", "Tbps"})
	if near == "" || strings.ContainsAny(unit, "0123456789") {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(s), unit))+near)
}

// ParseByteSize reads a size such as "1500", "10KB" or "64KiB".
func ParseByteSize(s string) (ByteSize, error) {
	number, unit, err := split(s)
	if err != nil {
		return 0, fmt.Errorf("size: %w", err)
	}
	factor, known := sizeUnits[strings.ToLower(unit)]
	switch {
	case !known:
		return 0, fmt.Errorf("size %q has an unknown unit: write B, kB, MB, GB, KiB, MiB or GiB, as in \"64KiB\"", s)
	case number < 0:
		return 0, fmt.Errorf("size %q is negative", s)
	case number*factor > 1e18:
		return 0, fmt.Errorf("size %q is above 1 EB", s)
	case number > 0 && number*factor < 0.5:
		return 0, fmt.Errorf("size %q is below 1 B", s)
	}
	return ByteSize(math.Round(number * factor)), nil
}

// ParseProbability reads "1%", "0.5 %" or "0.01"; the result lies between 0 and 1.
func ParseProbability(s string) (Probability, error) {
	number, unit, err := split(s)
	if err != nil {
		return 0, fmt.Errorf("share: %w", err)
	}
	switch unit {
	case "%":
		number /= 100
	case "":
	default:
		return 0, fmt.Errorf("share %q has the unit %q: write a percentage as in \"1%%\"", s, unit)
	}
	if number < 0 || number > 1 {
		return 0, fmt.Errorf("share %q is outside 0 %% to 100 %%", s)
	}
	return Probability(math.Abs(number)), nil // "-0%" is 0
}

// ParseDuration reads "5ms", "1.5 s" or "0"; it must not be negative.
func ParseDuration(s string) (time.Duration, error) {
	compact := strings.ReplaceAll(strings.TrimSpace(s), " ", "")
	d, err := time.ParseDuration(compact)
	if err != nil {
		return 0, fmt.Errorf("duration %q is not valid: write a number and ns, us, ms, s, m or h, as in \"5ms\"", s)
	}
	if d < 0 {
		return 0, fmt.Errorf("duration %q is negative", s)
	}
	return d, nil
}

// scaled prints v with the largest of the factors that leaves at least 1 before the point.
func scaled(v, step float64, names []string) string {
	i, rounded := 0, math.Round(v*1000)/1000
	for i < len(names)-1 && rounded >= step {
		v /= step
		rounded = math.Round(v*1000) / 1000
		i++
	}
	return strconv.FormatFloat(rounded, 'f', -1, 64) + " " + names[i]
}

// String prints the rate with three decimals at most, as in "1.5 Gbit/s".
func (r BitRate) String() string {
	return scaled(float64(r), 1000, []string{"bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"})
}

// String prints the size in binary units, as in "64 KiB".
func (b ByteSize) String() string {
	return scaled(float64(b), 1024, []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"})
}

// String prints the share as a percentage, as in "1 %".
func (p Probability) String() string {
	return strconv.FormatFloat(math.Round(float64(p)*1e8)/1e6, 'f', -1, 64) + " %"
}

func (d Duration) String() string { return time.Duration(d).String() }

// The errors of the UnmarshalText methods carry the valid range as advice (fault.Advice).

func (r *BitRate) UnmarshalText(text []byte) (err error) {
	*r, err = ParseBitRate(string(text))
	return fault.Wrap(err, fault.Usage, "write a number and bit, kbit, Mbit, Gbit or Tbit, such as 200Mbit")
}
func (b *ByteSize) UnmarshalText(text []byte) (err error) {
	*b, err = ParseByteSize(string(text))
	return fault.Wrap(err, fault.Usage, "write a size from 0 to 1000000TB, such as 64KiB")
}

// ShortForm describes the text form of a share in schemas.
func (Probability) ShortForm() string { return `a percentage such as "1%", or a number from 0 to 1` }

func (p *Probability) UnmarshalText(text []byte) (err error) {
	*p, err = ParseProbability(string(text))
	return fault.Wrap(err, fault.Usage, `write a share from 0 % to 100 %, such as "1%" or 0.01`)
}
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := ParseDuration(string(text))
	*d = Duration(parsed)
	return fault.Wrap(err, fault.Usage, "write a time of 0 or more, such as 5ms")
}
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// Short prints a rate with about three digits, for live displays with columns of fixed width.
func (r BitRate) Short() string {
	value, unit := float64(r), 0
	names := []string{"bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"}
	for ; value >= 999.5 && unit < len(names)-1; unit++ {
		value /= 1000
	}
	switch {
	case unit == 0 || value >= 99.95:
		return fmt.Sprintf("%.0f %s", value, names[unit])
	case value >= 9.995:
		return fmt.Sprintf("%.1f %s", value, names[unit])
	}
	return fmt.Sprintf("%.2f %s", value, names[unit])
}
