// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"weir/internal/nearest"
	"weir/internal/units"
)

// dscp is a DiffServ code point, by number or by name.
type dscp uint8

// ParseDSCP reads "46", "ef", "af11", "cs1" or "le" (RFC 2474, 2597, 3246, 5865, 8622).
func ParseDSCP(text string) (uint8, error) {
	s := strings.ToLower(strings.TrimSpace(text))
	if n, err := strconv.Atoi(s); err == nil {
		if n < 0 || n > 63 {
			return 0, fmt.Errorf("DSCP %d is outside 0 to 63", n)
		}
		return uint8(n), nil
	}
	value := map[string]uint8{"be": 0, "df": 0, "le": 1, "ef": 46, "va": 44}
	for class := range uint8(8) {
		value[fmt.Sprintf("cs%d", class)] = class << 3
		for drop := uint8(1); drop <= 3 && class >= 1 && class <= 4; drop++ {
			value[fmt.Sprintf("af%d%d", class, drop)] = class<<3 | drop<<1
		}
	}
	v, known := value[s]
	if !known {
		return 0, fmt.Errorf("DSCP %q is neither a number from 0 to 63 nor a name such as \"ef\" or \"af11\"", text)
	}
	return v, nil
}

func (d *dscp) UnmarshalText(text []byte) error {
	v, err := ParseDSCP(string(text))
	*d = dscp(v)
	return err
}
func (*dscp) ShortForm() string { return `0-63, or a name such as "ef", "cs1", "af11", "le"` }

// ecn are the two ECN bits (RFC 3168).
type ecn uint8

func (e *ecn) UnmarshalText(text []byte) error {
	names := []string{"not-ect", "ect1", "ect0", "ce"}
	for v, name := range names {
		if s := strings.ToLower(string(text)); s == name || s == strconv.Itoa(v) {
			*e = ecn(v)
			return nil
		}
	}
	return fmt.Errorf("ECN %q is not one of %s, or 0-3%s", text, strings.Join(names, ", "), nearest.Hint(string(text), names))
}
func (*ecn) ShortForm() string { return `"not-ect", "ect0", "ect1", "ce", or 0-3` }

type address netip.Addr

func (a *address) UnmarshalText(text []byte) error {
	parsed, err := netip.ParseAddr(string(text))
	if err != nil {
		return fmt.Errorf("%q is not an IP address", text)
	}
	*a = address(parsed)
	return nil
}
func (*address) ShortForm() string { return "an IPv4 or IPv6 address" }

type mac net.HardwareAddr

func (m *mac) UnmarshalText(text []byte) error {
	parsed, err := net.ParseMAC(string(text))
	if err != nil || len(parsed) != 6 {
		return fmt.Errorf("%q is not an Ethernet address such as 02:00:00:00:00:01", text)
	}
	*m = mac(parsed)
	return nil
}
func (*mac) ShortForm() string { return "an Ethernet address" }

// rate is in frame/s, in bit/s on the wire, a share of the line, or as fast as possible.
type rate struct {
	frames float64
	bits   units.BitRate
	share  float64
	max    bool
}

// ParseFrameRate reads "1000 frame/s", "500kpps" or "1.5 Mpps", in frame/s.
func ParseFrameRate(text string) (float64, error) {
	var r rate
	if err := r.UnmarshalText([]byte(text)); err != nil || r.frames == 0 {
		return 0, fmt.Errorf("%q is not a frame rate such as \"1000 frame/s\"", text)
	}
	return r.frames, nil
}

func (r *rate) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	if strings.EqualFold(s, "max") {
		r.max = true
		return nil
	}
	for _, unit := range []struct {
		suffix string
		factor float64
	}{{"kframe/s", 1e3}, {"mframe/s", 1e6}, {"frames/s", 1}, {"frame/s", 1}, {"kpps", 1e3}, {"mpps", 1e6}, {"pps", 1}, {"fps", 1}, {"%", 0.01}} {
		number, found := strings.CutSuffix(strings.ToLower(s), unit.suffix)
		if !found {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || !(v > 0) || v > 1e12 {
			return fmt.Errorf("rate %q is not a positive number of %s", s, unit.suffix)
		}
		if unit.suffix != "%" {
			r.frames = v * unit.factor
			return nil
		}
		if r.share = v * unit.factor; r.share > 1 {
			return fmt.Errorf("rate %q is above the line's", s)
		}
		return nil
	}
	bits, err := units.ParseBitRate(s)
	if err != nil || bits == 0 {
		return fmt.Errorf("rate %q is not understood: write frames (\"10000 frame/s\", \"1.5 Mpps\"), bits on the wire (\"200Mbit\"), a share of the line (\"10%%\") or \"max\"", s)
	}
	r.bits = bits
	return nil
}
func (*rate) ShortForm() string {
	return `"1000 frame/s", "1.5 Mpps", "200Mbit" on the wire, "10%" of the line's speed, or "max"`
}

// gap is the time from frame to frame, or octets between frames.
type gap struct {
	time   time.Duration
	octets int
}

func (g *gap) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	for _, suffix := range []string{"octets", "octet", "bytes"} {
		number, found := strings.CutSuffix(s, suffix)
		if !found {
			continue
		}
		n, err := strconv.Atoi(strings.TrimSpace(number))
		if err != nil || n < 20 {
			return fmt.Errorf("gap %q is below 20 octets, the preamble and the least inter-frame gap", s)
		}
		g.octets = n
		return nil
	}
	d, err := units.ParseDuration(s)
	if err != nil || d <= 0 {
		return fmt.Errorf("gap %q is neither a time such as \"10us\" nor a number of octets such as \"20 octets\"", s)
	}
	g.time = d
	return nil
}
func (*gap) ShortForm() string { return `"10us" from start to start, or "20 octets" between frames` }

// payload is a stamp, or fixed octets that are repeated.
type payload struct {
	stamped bool
	octets  []byte
}

func (p *payload) UnmarshalText(text []byte) (err error) {
	s := strings.TrimSpace(string(text))
	if p.stamped = s == "stamped"; p.stamped {
		return nil
	}
	if p.octets, err = unhex(s); err != nil {
		return fmt.Errorf("payload %q is neither \"stamped\" nor octets such as 0xc0ffee", s)
	}
	return nil
}
func (*payload) ShortForm() string {
	return `"stamped" (sequence number and time), or octets to repeat such as "0xc0ffee"`
}

// mask is one to four octets.
type mask []byte

func (m *mask) UnmarshalText(text []byte) error {
	octets, err := unhex(string(text))
	if err != nil || len(octets) > 4 {
		return fmt.Errorf("mask %q is not one to four octets such as 0x00ff", text)
	}
	*m = octets
	return nil
}
func (*mask) ShortForm() string { return `one to four octets such as "0x00ff"` }

func unhex(s string) ([]byte, error) {
	digits, found := strings.CutPrefix(strings.ToLower(s), "0x")
	octets, err := hex.DecodeString(digits)
	if !found || err != nil || len(octets) == 0 {
		return nil, fmt.Errorf("not hexadecimal")
	}
	return octets, nil
}
