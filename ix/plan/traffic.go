// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"net/netip"
	"strconv"
	"strings"

	"weir/internal/fault"
	"weir/internal/infile"
)

// Traffic is measured traffic by destination prefix.
type Traffic struct {
	Bytes     uint64 `json:"bytes"`     // in all
	Matched   uint64 `json:"matched"`   // to prefixes of the table
	Unmatched uint64 `json:"unmatched"` // to other destinations

	flows map[netip.Prefix]uint64
}

// maxFlows bounds the lines of a file.
const maxFlows = 10_000_000

var flowsKind = infile.Kind{What: "traffic", Name: "name a CSV file with prefix,bytes in each line"}

// LoadTraffic reads a CSV file of destinations and bytes: "192.0.2.0/24,1000", with an optional
// header line. An address counts as its longest prefix in the table. Errors name the line.
func LoadTraffic(name string) (*Traffic, error) {
	file, err := flowsKind.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return ReadTraffic(name, file)
}

// ReadTraffic is [LoadTraffic] from a stream that messages call name.
func ReadTraffic(name string, from io.Reader) (*Traffic, error) {
	t := &Traffic{flows: map[netip.Prefix]uint64{}}
	lines := bufio.NewScanner(from)
	for number := 1; lines.Scan(); number++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || text[0] == '#' || number == 1 && strings.HasPrefix(strings.ToLower(text), "prefix,") {
			continue
		}
		prefix, n, err := parseFlow(text)
		if err == nil {
			err = t.add(prefix, n)
		}
		if err != nil {
			return nil, fault.New(fault.Usage, "write each line as 192.0.2.0/24,1000", "%s:%d: %w", name, number, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fault.New(fault.Usage, flowsKind.Name, "%s: %w", name, err)
	}
	if t.Bytes == 0 {
		return nil, fault.New(fault.Usage, flowsKind.Name, "%s: no traffic", name)
	}
	return t, nil
}

func (t *Traffic) add(prefix netip.Prefix, n uint64) error {
	sum, carry := bits.Add64(t.Bytes, n, 0)
	if carry != 0 {
		return errors.New("the sum of all bytes exceeds 64 bits")
	}
	t.Bytes = sum
	if t.flows[prefix] += n; len(t.flows) > maxFlows {
		return fmt.Errorf("more than %d prefixes", maxFlows)
	}
	return nil
}

// parseFlow reads one line.
func parseFlow(text string) (netip.Prefix, uint64, error) {
	where, bytes, found := strings.Cut(text, ",")
	if !found {
		return netip.Prefix{}, 0, fmt.Errorf("%.60q has no comma", text)
	}
	prefix, err := ParsePrefix(strings.TrimSpace(where))
	if err != nil {
		return netip.Prefix{}, 0, err
	}
	n, err := strconv.ParseUint(strings.TrimSpace(bytes), 10, 64)
	if err != nil {
		return netip.Prefix{}, 0, fmt.Errorf("%.60q is not a number of bytes", bytes)
	}
	return prefix, n, nil
}

// ParsePrefix reads a prefix, or an address as a prefix of its full length.
func ParsePrefix(text string) (netip.Prefix, error) {
	if p, err := netip.ParsePrefix(text); err == nil && !p.Addr().Is4In6() {
		return p.Masked(), nil
	}
	if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	return netip.Prefix{}, fmt.Errorf("%.60q is neither a prefix nor an address", text)
}

// Match returns the prefix of the table that holds the traffic to p: p itself or the longest one
// that covers it.
func (t *Table) Match(p netip.Prefix) (netip.Prefix, bool) {
	if len(t.RIB.Paths(p, nil)) > 0 {
		return p, true
	}
	return t.RIB.Covering(p)
}

// weights returns the traffic of each prefix of the table, scaled to a sum below 2^32: sums of
// weights shifted by allShift then fit in 64 bits.
func (f *Traffic) weights(t *Table) func(netip.Prefix) uint64 {
	f.Matched, f.Unmatched = 0, 0
	matched := map[netip.Prefix]uint64{}
	for p, n := range f.flows {
		if at, found := t.Match(p); found {
			matched[at] += n
			f.Matched += n
		} else {
			f.Unmatched += n
		}
	}
	shift := max(0, bits.Len64(f.Matched)-32)
	return func(p netip.Prefix) uint64 { return matched[p] >> shift }
}
