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

// ReadTraffic reads how many packets go where: lines of an address, or a prefix of which the first
// address is taken, and a number; without one it is 1. name is the file's.
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
			return nil, wrong(fmt.Sprintf("%q is no address", words[0]))
		}
		packets := uint64(1)
		if len(words) > 1 {
			if packets, err = strconv.ParseUint(words[1], 10, 48); err != nil {
				return nil, wrong(fmt.Sprintf("%q is no number of packets", words[1]))
			}
		}
		if len(words) > 2 {
			return nil, wrong("there is more than an address and a number")
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

// CountedTraffic are the destinations of what passes on this host, sampled by what is in force in a
// folder of pins; none where there is no budget.
func CountedTraffic(pins string) (map[netip.Addr]uint64, error) {
	p := hostPlane{}
	p.host.Pins = pins
	return p.counted()
}
