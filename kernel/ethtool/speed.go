// SPDX-License-Identifier: Apache-2.0

package ethtool

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/safchain/ethtool"
	"golang.org/x/sys/unix"

	"weir/internal/units"
	"weir/kernel/netns"
)

// Speed returns the rate of a device's link, or 0 if it is unknown: down or virtual. The rate that
// a veth reports is a constant of the driver and counts as unknown.
func Speed(ns *netns.Namespace, dev string) (rate units.BitRate, err error) {
	err = with(ns, func(tool *ethtool.Ethtool) error {
		if driver, err := tool.DriverName(dev); err == nil && driver == "veth" {
			return nil
		}
		var settings ethtool.EthtoolCmd
		mbit, err := tool.CmdGet(&settings, dev)
		if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) || mbit == math.MaxUint32 {
			return nil
		}
		rate = units.BitRate(mbit) * 1_000_000
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("read speed of %s: %w", dev, err)
	}
	return rate, nil
}

// Hardware lists the devices of the calling thread's namespace that are backed by hardware or by a
// hypervisor.
func Hardware() ([]string, error) {
	paths, err := filepath.Glob("/sys/class/net/*/device")
	if err != nil {
		return nil, fmt.Errorf("list devices: %w", err)
	}
	var names []string
	for _, path := range paths {
		name := filepath.Base(filepath.Dir(path))
		state, err := os.ReadFile(filepath.Join("/sys/class/net", name, "operstate"))
		if err == nil && string(state) != "down\n" {
			names = append(names, name)
		}
	}
	return names, nil
}
