// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"bufio"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"

	"weir/internal/fault"
)

// ReadTraffic reads packet counts by destination. A line has an address, or a prefix that stands
// for its first address, and a number; 1 without one. name is the file's.
func ReadTraffic(from io.Reader, name string) (map[netip.Addr]uint64, error) {
	all := map[netip.Addr]uint64{}
	lines := bufio.NewScanner(from)
	for at := 1; lines.Scan(); at++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		wrong := func(what string) error {
			return fault.New(fault.Usage, "write an address and a number of packets, as 198.51.100.7 1200", "read traffic: %s:%d: %s", name, at, what)
		}
		to, err := destination(words[0])
		if err != nil {
			return nil, wrong(fmt.Sprintf("%q is not an address", words[0]))
		}
		packets := uint64(1)
		if len(words) > 1 {
			if packets, err = strconv.ParseUint(words[1], 10, 48); err != nil {
				return nil, wrong(fmt.Sprintf("%q is not a number of packets", words[1]))
			}
		}
		if len(words) > 2 {
			return nil, wrong("the line has more than an address and a number")
		}
		all[to] += packets
	}
	if err := lines.Err(); err != nil {
		return nil, fault.Wrap(fmt.Errorf("read traffic: %s: %w", name, err), fault.Usage, "write an address and a number of packets a line")
	}
	return all, nil
}

func destination(text string) (netip.Addr, error) {
	if to, err := netip.ParsePrefix(text); err == nil {
		return to.Addr().Unmap(), nil
	}
	to, err := netip.ParseAddr(text)
	return to.Unmap(), err
}

// CountedTraffic returns sampled destinations of this host from a folder of pins; none without a
// budget.
func CountedTraffic(pins string) (map[netip.Addr]uint64, error) {
	p := hostPlane{}
	p.host.Pins = pins
	return p.counted()
}
